"""Counts of stored blobs, and checks of them against what was kept when they were written."""
