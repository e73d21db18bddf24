"""Blobs copied from containers to new ones, read back and compared."""
