"""Plan, execute, merge: the search itself, on the driver or on executors."""
