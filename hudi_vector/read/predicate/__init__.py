"""Filters in one pure form: parsed, printed, pruned and evaluated with the semantics of Spark's WHERE."""
