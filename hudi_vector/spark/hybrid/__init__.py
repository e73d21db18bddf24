"""Hybrid search by several vector columns on Spark, in SQL and in Python."""
