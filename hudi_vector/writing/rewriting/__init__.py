"""Rewrites of a table's rows: with new references, in another order, or with blobs moved in or out of rows."""
