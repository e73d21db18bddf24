"""Where the bytes of some records still are."""
