"""The groups of a search: the arguments that make them, and the keys that identify them."""
