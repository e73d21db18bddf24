"""The kinds of vector indexes: how each trains its model, encodes vectors and finds candidates."""
