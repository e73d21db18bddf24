"""The kinds of indexes: how each trains, encodes and looks for candidates."""
