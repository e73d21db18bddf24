"""Vector search over streaming DataFrames, and a stream of changes to fixed searches."""
