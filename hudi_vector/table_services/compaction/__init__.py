"""Blob compaction: copies live blobs of containers that are mostly dead, or small, to new containers."""
