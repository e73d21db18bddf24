"""Vector search on Spark: SQL functions and their Python counterparts."""
