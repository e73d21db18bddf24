"""Blob columns of a write: bytes first, Hudi's commit after them."""
