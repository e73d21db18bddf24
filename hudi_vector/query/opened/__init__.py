"""Search without Spark: tables opened once and searched many times."""
