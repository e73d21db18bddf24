"""Resolution of names, paths and plans to tables, and the snapshot that a statement reads."""
