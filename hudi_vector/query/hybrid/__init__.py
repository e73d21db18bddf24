"""Search by several vector columns together."""
