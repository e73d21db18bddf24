"""The commands that change the embedding model of a table."""
