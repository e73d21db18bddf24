"""The SQL functions, in one table."""
