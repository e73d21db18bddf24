"""The command ``hudi-vector``: arguments, rows and exit codes around the public functions."""
