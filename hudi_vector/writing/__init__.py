"""Writes of checked DataFrames into Hudi tables."""
