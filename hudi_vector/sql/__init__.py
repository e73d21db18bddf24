"""The SQL functions of this package, and their registration in a Spark session."""
