"""Search of Lance datasets."""
