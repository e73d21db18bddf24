"""Bytes beside the checksums that were kept when they were written."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.containers import CHECKSUMS
from hudi_vector.blobs.fetch import BlobFetcher, Part
from hudi_vector.blobs.manifest import read_checksums, read_upload
from hudi_vector.blobs.names import ContainerName
from hudi_vector.blobs.pieces import pieces
from hudi_vector.blobs.stored import Ints, StoredBlobs
from hudi_vector.blobs.struct import OUT_OF_LINE, BlobColumns
from hudi_vector.blobs.wrong import CHANGED, OUT_OF_REACH, Problems
from hudi_vector.errors import InvalidArgumentError

__all__ = ["KeptChecksums"]

_RANGE = ["path", "offset", "length"]
_WRITES_HELD = 4


class KeptChecksums:
    """The checksums of a table's writes, those of the last few held in memory.

    Args:
        area: Where the table keeps its blobs.
        fetcher: How bytes are had; it gives NULL for bytes that are not.
        memory_budget: Bytes of blobs read at a time.
    """

    def __init__(self, area: BlobArea, fetcher: BlobFetcher, memory_budget: int) -> None:
        self._area = area
        self._fetcher = fetcher
        self._budget = memory_budget
        self._of_write = lru_cache(_WRITES_HELD)(self._load)

    def compare(self, blobs: StoredBlobs, problems: Problems) -> None:
        """Read the blobs that have a checksum and no problem yet, and note those that are not what was written.

        Args:
            blobs: The blobs.
            problems: Theirs so far; this completes them.

        Raises:
            DataFileError: A file of checksums is gone or damaged.
        """
        fine = np.array([problem is None for problem in problems], np.bool_)
        known = self._known(blobs, np.flatnonzero(blobs.outside & fine))
        if known is None:
            return
        read = pieces(self._fetcher, _references(known), Part(), self._budget)
        expected = zip(*(known[name].to_pylist() for name in ("row", "method", "checksum")), strict=True)
        for value, (row, method, checksum) in zip((value for piece in read for value in piece), expected, strict=True):
            if not value.is_valid:
                problems[row] = OUT_OF_REACH
            elif CHECKSUMS[method](memoryview(value.as_buffer())) != checksum:
                problems[row] = CHANGED

    def _known(self, blobs: StoredBlobs, rows: Ints) -> pa.Table | None:
        """Those of the rows that have a checksum, with it."""
        uris = blobs.file.take(pa.array(rows)).dictionary_encode()
        names = [ContainerName.parse(self._area.table, uri) for uri in uris.dictionary.to_pylist()]
        writes = pa.array([name and name.write_id for name in names], pa.string()).take(uris.indices)
        asked = pa.table(
            {
                "row": rows,
                "uri": uris.cast(pa.string()),
                "path": pc.utf8_slice_codeunits(uris.cast(pa.string()), len(self._area.table) + 1),
                "offset": blobs.begin[rows],
                "length": blobs.count[rows],
            }
        )
        found = []
        for write_id in pc.unique(writes.drop_null()).to_pylist():
            kept = self._of_write(write_id)
            if kept is not None:
                of_write = asked.filter(pc.fill_null(pc.equal(writes, write_id), False))
                found.append(of_write.join(kept, _RANGE, join_type="inner", use_threads=False))
        return pa.concat_tables(found) if found else None

    def _load(self, write_id: str) -> pa.Table | None:
        options = self._fetcher.options
        try:
            return read_checksums(read_upload(self._area.table, write_id, options=options), options=options)
        except InvalidArgumentError:
            return None  # a table that was copied without its manifests


def _references(known: pa.Table) -> BlobColumns:
    uri, offset, length = (known[name].combine_chunks() for name in ("uri", "offset", "length"))
    count = len(uri)
    return BlobColumns(
        kind=pa.repeat(OUT_OF_LINE, count),
        data=pa.nulls(count, pa.binary()),
        path=uri,
        offset=offset,
        length=length,
        managed=pa.nulls(count, pa.bool_()),
    )
