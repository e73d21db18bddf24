"""Vector columns of a write: what is wrong with a value, and the value as Hudi stores it."""
