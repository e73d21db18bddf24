"""Maintenance: one job that runs the services that are due on a table, and its history and report."""
