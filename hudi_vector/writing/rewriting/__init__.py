"""Rows of a table written again: new references, another order, another place."""
