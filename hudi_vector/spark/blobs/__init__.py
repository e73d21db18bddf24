"""BLOB columns in SQL and in Python on Spark."""
