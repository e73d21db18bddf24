"""Index upkeep: made, brought up to date, checked, compacted."""
