"""Parquet files of a table, read column by column and page by page."""
