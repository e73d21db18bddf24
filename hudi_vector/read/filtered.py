"""Evaluation of a predicate on many files: cached columns in one call, other files one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.predicate.form import evaluate
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage import parallel

__all__ = ["allowed_rows"]

Bools = npt.NDArray[np.bool_]

_TASKS = 64
"""The number of tasks for many files: handing a file to a thread costs more than checking its statistics."""


def allowed_rows(
    readers: Sequence[ParquetSlice], spec: ScanSpec, counts: ScanCounts, each: Callable[..., Iterable[Any]] = map
) -> list[Bools]:
    """Return for each file a mask over its rows of the live rows that pass the predicate, and add to `counts`.

    `each` is a function like `map`, perhaps with threads, that goes through the files whose columns must be read.
    """
    masks = _in_memory(readers, spec, counts)

    def read(numbers: Sequence[int]) -> tuple[dict[int, Bools], ScanCounts]:
        own = ScanCounts()
        return {number: readers[number].allowed(own) for number in numbers}, own

    left = [number for number in range(len(readers)) if number not in masks]
    step = max(1, len(left) // _TASKS)
    if not all(readers[number].is_local for number in left):
        step, each = 1, partial(parallel.each, decodes=True)
    for found, own in each(read, [left[start : start + step] for start in range(0, len(left), step)]):
        masks |= found
        counts.add(own)
    return [masks[number] for number in range(len(readers))]


def _in_memory(readers: Sequence[ParquetSlice], spec: ScanSpec, counts: ScanCounts) -> dict[int, Bools]:
    """Return the masks of the files whose filter columns are cached, by index in `readers`.

    All of them are evaluated together: the cost of an evaluation is more per call than per row.
    """
    held = {number: columns for number, reader in enumerate(readers) if (columns := reader.kept_filter_columns())}
    if not held:
        return {}
    assert spec.predicate is not None
    names = spec.filter_columns
    together = pa.table(
        [
            pa.chunked_array([chunk for columns in held.values() for chunk in columns[place].chunks], field.type)
            for place, field in enumerate(spec.filter_schema)
        ],
        names=list(names),
    )
    passing = evaluate(spec.predicate, together, spec.zone)
    ends = np.cumsum([0, *(len(columns[0]) for columns in held.values())]).tolist()
    return {
        number: readers[number].there_of(passing[start:stop], counts)
        for number, (start, stop) in zip(held, pairwise(ends), strict=True)
    }
