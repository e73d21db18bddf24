"""The parts of the KNN join that need no Spark: its route, its condition, and the k nearest rows under it."""
