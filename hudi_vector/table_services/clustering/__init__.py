"""Clustering: rows in another order, and the blobs after them."""
