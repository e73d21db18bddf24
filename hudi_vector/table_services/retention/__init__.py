"""The data files that a table retains, its savepoints and its pending instants."""
