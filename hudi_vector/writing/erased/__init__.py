"""The deny-list of a table: salted hashes of erased record keys, and what a write does with rows that have them."""
