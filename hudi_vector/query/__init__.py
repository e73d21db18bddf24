"""Planning, execution and merging of searches, on the driver or on executors."""
