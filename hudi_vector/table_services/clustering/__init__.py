"""Clustering: puts rows in a new order, and then repacks blobs in the order of their rows."""
