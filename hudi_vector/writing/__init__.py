"""Checked DataFrames into Hudi tables."""
