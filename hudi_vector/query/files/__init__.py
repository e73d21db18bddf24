"""Parquet files that are no Hudi table, as something to be searched."""
