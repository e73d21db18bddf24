"""Bytes of blobs, read late, in few ranges and within a budget."""
