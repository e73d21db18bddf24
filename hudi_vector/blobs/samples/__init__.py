"""Samples for training: rows with their blobs, found once, read in batches, in an order that a seed gives."""
