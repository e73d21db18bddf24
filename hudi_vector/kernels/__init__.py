"""Numeric kernels on numpy arrays: distances, top-k selection, k-means and quantisation."""
