"""Readers of file slices: vectors and columns as Arrow data, one reader for each kind of slice."""
