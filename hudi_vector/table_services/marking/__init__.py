"""Which blob files of a table nothing needs."""
