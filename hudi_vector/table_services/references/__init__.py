"""The blob references in every retained data file of a table."""
