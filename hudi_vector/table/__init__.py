"""The state of a Hudi table at an instant: its timeline, its snapshot and its file slices."""
