"""What is due on a table, in one job, and its history."""
