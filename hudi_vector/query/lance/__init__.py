"""Search of Lance datasets, and temporary datasets for computed sides of a join."""
