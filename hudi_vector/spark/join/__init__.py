"""The KNN join on Spark: both sides, the condition, and the choice of a route."""
