"""The routes of a KNN join, each of which prepares the right side for the search."""
