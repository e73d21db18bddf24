"""Doors to other libraries, each in a module that needs its library and is imported by name."""
