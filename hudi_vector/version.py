"""The version of this package, kept once."""

__version__ = "0.1.0"
