"""Log files of Hudi, and slices that have some."""
