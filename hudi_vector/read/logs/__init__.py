"""Readers of Hudi log files, and of file slices that have log files."""
