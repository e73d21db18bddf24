"""The search for the best groups of rows: its question, its passes over rows, and its way through an index."""
