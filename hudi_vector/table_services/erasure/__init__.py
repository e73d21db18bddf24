"""Erasure checks: which files still hold bytes of given records."""
