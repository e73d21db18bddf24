"""Containers: files that hold the bytes of many blobs, in several formats."""
