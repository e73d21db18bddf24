"""Slices that an index covers, searched through it."""
