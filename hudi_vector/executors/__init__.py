"""Work on an application's executors: which of them reads which file, and what their Python workers may keep."""
