"""Receipts of searches: what was asked, what was read and what was answered, as one JSON document."""
