"""Readers of Parquet files: whole columns, single pages, and the rows of file slices without log files."""
