"""Lance datasets as something to be searched."""
