"""The KNN join without Spark: which route is taken, what a condition means, the k nearest rows under it."""
