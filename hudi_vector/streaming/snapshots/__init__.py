"""Which snapshot of a table answers a micro-batch."""
