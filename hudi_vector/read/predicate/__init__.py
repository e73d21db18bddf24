"""Filter predicates: parsing, printing, pruning and evaluation with the semantics of Spark's WHERE."""
