"""The search of file slices through an index."""
