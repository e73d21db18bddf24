"""Between Catalyst and Python: arguments and plans in, lazy relations out."""
