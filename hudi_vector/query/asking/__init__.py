"""The engine of rows that ask: their queries, the rows found for them, and the output of both."""
