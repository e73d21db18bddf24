"""The bridge between Catalyst and Python: arguments, filters, plans and lazy relations."""
