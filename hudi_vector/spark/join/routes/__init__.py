"""The routes of a KNN join, made ready for its stage."""
