"""From file slices to Arrow: one reader per kind of slice, and the predicates evaluated on the way."""
