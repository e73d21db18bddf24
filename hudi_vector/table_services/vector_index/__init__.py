"""Jobs on vector indexes: make, refresh, describe, measure, verify, compact and drop them."""
