"""The KNN join on Spark: its sides, its routes, its stage."""
