"""Blob columns on their way into a table."""
