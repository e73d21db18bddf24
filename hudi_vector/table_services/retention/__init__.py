"""Which data files of a table are retained, and by what."""
