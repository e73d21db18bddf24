"""Vector search in SQL and in Python on Spark."""
