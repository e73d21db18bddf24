"""Readers of blob bytes: late, in few ranges, and within a memory budget."""
