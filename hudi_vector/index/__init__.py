"""The vector index: one model for a column, one immutable segment for each base file, one joined view."""
