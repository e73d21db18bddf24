"""Search of Parquet files that are not a Hudi table: lists of files, Delta tables, and temporary files."""
