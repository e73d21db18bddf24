"""The choice of the table snapshot that answers a micro-batch."""
