"""Commits of Hudi: handing rows over to it, undoing what a failed write left, and finding the instant of a write."""
