"""Blob compaction: live blobs of containers go to new containers."""
