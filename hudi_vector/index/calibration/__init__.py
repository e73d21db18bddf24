"""Calibration: the cheapest index settings that reach a recall, measured on held-out rows."""
