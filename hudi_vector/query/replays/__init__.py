"""The search of a receipt again, as of the same instant, and the comparison of both answers."""
