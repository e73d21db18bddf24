"""Stored blobs counted and compared with what was kept of them."""
