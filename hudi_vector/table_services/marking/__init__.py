"""Marking: the search for blob files of a table that nothing needs."""
