"""Search without Spark: tables that are opened once and searched many times."""
