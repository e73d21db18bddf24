"""The references of every retained data file of a table."""
