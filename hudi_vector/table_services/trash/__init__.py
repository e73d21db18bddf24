"""The trash, where swept files wait before they are deleted for good."""
