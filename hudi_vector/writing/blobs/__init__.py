"""Blob columns of a write: their bytes are stored before Hudi commits the rows."""
