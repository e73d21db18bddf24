"""BLOB columns on Spark: SQL functions and their Python counterparts."""
