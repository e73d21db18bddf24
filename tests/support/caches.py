"""The process's cache in the hands of tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hudi_vector.read.cache import process_cache


@contextmanager
def empty_cache(budget: int) -> Iterator[None]:
    """The cache, empty and of so many bytes; what the block leaves in it goes."""
    before = process_cache().budget
    process_cache().clear()
    process_cache().resize(budget)
    yield
    process_cache().clear()
    process_cache().resize(before)
