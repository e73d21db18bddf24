"""What a name, a path or a plan leads to, and the snapshot that a statement sees."""
