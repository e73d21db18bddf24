"""What a table is at an instant: its timeline, its snapshot, its file slices."""
