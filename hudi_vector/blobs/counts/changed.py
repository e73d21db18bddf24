"""Checks of stored blobs against what was kept when they were written: checksums of bytes and pins of files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hudi_vector.blobs.counts.wrong import CHANGED, OUT_OF_REACH, Problems
from hudi_vector.blobs.names import BLOB_AREA
from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.reading.pieces import pieces
from hudi_vector.blobs.stored_blobs import StoredBlobs
from hudi_vector.blobs.struct import OUT_OF_LINE, BlobColumns
from hudi_vector.blobs.uploads.external_files import file_infos, was_touched
from hudi_vector.blobs.uploads.kept_checksums import KeptChecksums
from hudi_vector.storage import StorageOptions

__all__ = ["note_changed", "note_touched"]


def note_changed(
    blobs: StoredBlobs, problems: Problems, kept: KeptChecksums, fetcher: BlobFetcher, memory_budget: int
) -> None:
    """Read the blobs that have a kept checksum and no problem yet; note CHANGED or OUT_OF_REACH in `problems`.

    `fetcher` must return NULL for bytes that cannot be read. `memory_budget` is the number of blob bytes read at a
    time. Raises DataFileError if a file of checksums is gone or damaged.
    """
    fine = np.array([problem is None for problem in problems], np.bool_)
    rows = np.flatnonzero(blobs.outside & fine)
    uris, begin, count = blobs.file.take(pa.array(rows)), blobs.begin[rows], blobs.count[rows]
    known = kept.of(uris, begin, count)
    rows, begin, count = rows[known.rows], begin[known.rows], count[known.rows]
    uris = uris.take(pa.array(known.rows))
    done = 0
    for values in pieces(fetcher, _references(uris, begin, count), Part(), memory_budget):
        here = slice(done, done + len(values))
        problems[rows[here][~np.asarray(values.is_valid())]] = OUT_OF_REACH
        problems[rows[here][known.changed(values, done)]] = CHANGED
        done += len(values)


def note_touched(blobs: StoredBlobs, problems: Problems, pins: pa.StructArray, options: StorageOptions) -> None:
    """Note CHANGED in `problems` for blobs whose files differ from their pins, without reading bytes.

    `pins` holds the size and modification time of each blob's file at its write, NULL without a pin. Files in blob
    areas are left out: containers never change, and one that was restored from the trash has another modification time.
    """
    fine = np.array([problem is None for problem in problems], np.bool_)
    rows = np.flatnonzero(blobs.outside & fine & np.asarray(pins.is_valid()))
    encoded = blobs.file.take(pa.array(rows)).dictionary_encode()
    infos = file_infos(encoded.dictionary.to_pylist(), options, lenient=True)
    pinned = pins.take(pa.array(rows)).to_pylist()
    for row, code, pin in zip(rows.tolist(), encoded.indices.to_pylist(), pinned, strict=True):
        if f"/{BLOB_AREA}/" not in encoded.dictionary[code].as_py() and was_touched(infos[code], **pin):
            problems[row] = CHANGED


def _references(uris: pa.StringArray, offset: np.ndarray, length: np.ndarray) -> BlobColumns:
    return BlobColumns(
        kind=pa.repeat(OUT_OF_LINE, len(uris)),
        data=pa.nulls(len(uris), pa.binary()),
        path=uris,
        offset=pa.array(offset),
        length=pa.array(length),
        managed=pa.nulls(len(uris), pa.bool_()),
    )
