"""Conversion of a write's blob columns: bytes go to containers, references are checked."""
