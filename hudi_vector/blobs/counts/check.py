"""The check of rows whose blobs are known by their placements: the references that do not lead to their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.changed import note_changed, note_touched
from hudi_vector.blobs.counts.wrong import Problems, find_problems
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.stored_blobs import StoredBlobs
from hudi_vector.blobs.uploads.kept_checksums import kept_checksums

__all__ = ["WRONG", "Check", "pin_column"]

_READ_BYTES = 16 << 20
WRONG = pa.schema(
    [
        *((name, pa.string()) for name in ("column", "key", "partition", "path")),
        *((name, pa.int64()) for name in ("offset", "length")),
        ("problem", pa.string()),
    ]
)
"""A wrong reference: where it is, what it says, and its problem."""


@dataclass(frozen=True)
class Check:
    """The check of the BLOB columns of some rows. Picklable: executors get it.

    `fetcher` returns NULL for bytes that cannot be read; with `deep`, bytes are compared with their kept checksums.
    """

    columns: tuple[str, ...]
    area: BlobArea
    fetcher: BlobFetcher
    deep: bool

    def wrong(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the wrong references, in batches of `WRONG`.

        Rows have ``key``, ``partition``, the placements of each column under its number, and the pins of their files
        under its `pin_column`.
        """
        files = self.fetcher.files()
        for batch in batches:
            for number, column in enumerate(self.columns):
                blobs = StoredBlobs.of(batch.column(str(number)), self.area)
                problems = find_problems(blobs, self.area, files)
                note_touched(blobs, problems, batch.column(pin_column(number)), self.fetcher.options)
                if self.deep:
                    note_changed(blobs, problems, kept_checksums(self.fetcher.options), self.fetcher, _READ_BYTES)
                yield _found(column, batch, blobs, problems)


def pin_column(number: int) -> str:
    """Return the name of the column with the pins of a BLOB column's files."""
    return f"pin{number}"


def _found(column: str, batch: pa.RecordBatch, blobs: StoredBlobs, problems: Problems) -> pa.RecordBatch:
    rows = pa.array(np.flatnonzero(problems.astype(np.bool_)))
    return pa.record_batch(
        {
            "column": pa.repeat(column, len(rows)),
            "key": batch.column("key").take(rows),
            "partition": batch.column("partition").take(rows),
            "path": blobs.path.take(rows),
            "offset": blobs.offset.take(rows),
            "length": blobs.length.take(rows),
            "problem": pa.array(problems, pa.string()).take(rows),
        }
    )
