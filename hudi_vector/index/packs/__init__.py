"""Packs: the segments of many base files in one file, whose lists of codes are read one by one."""
