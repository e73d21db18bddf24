"""Vector columns of a write: checks of their values, and the values as Hudi stores them."""
