"""Numbers only: distances and the k smallest of them, on numpy arrays."""
