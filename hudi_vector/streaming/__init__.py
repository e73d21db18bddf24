"""Vector search over streaming DataFrames."""
