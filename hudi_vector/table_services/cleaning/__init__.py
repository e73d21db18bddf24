"""The cleaner: marks, sweeps, and why a file stays."""
