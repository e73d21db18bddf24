"""Copies of blobs into new containers, read back and compared with their source."""
