"""Scans of file slices that say where the blobs of rows lie, and read none of their bytes."""
