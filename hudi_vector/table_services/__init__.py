"""The room of scheduled jobs over a table: each plans, runs and commits."""
