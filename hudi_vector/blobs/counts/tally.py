"""Counts of stored blobs: first by range within a task, then by file once all rows of a file are together.

A *tally* is a table of `TALLY`: how many rows of a column and partition refer to a range of a file. INLINE blobs have
no file, and `bytes` counts their bytes. A file that was listed in the table's blob area has a row without column, with
its size as `bytes`: so files without references are counted too, and the others need no second lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.cover import covered_bytes
from hudi_vector.blobs.counts.presence import DIRECTORY, GONE, TOO_SHORT, file_sizes, presence
from hudi_vector.blobs.files import BlobFiles
from hudi_vector.blobs.stored_blobs import TO_THE_END, Ints, StoredBlobs
from hudi_vector.errors import InvalidBlobError, number_of
from hudi_vector.storage import FileInfo

__all__ = [
    "EXTERNAL",
    "INLINE_ROWS",
    "MANAGED",
    "SUMMARY",
    "TALLY",
    "add_up",
    "count_blobs",
    "count_rows",
    "summarise",
    "tally_of_files",
    "whole_files",
]

INLINE_ROWS, MANAGED, EXTERNAL = "inline", "managed", "external"

TALLY = pa.schema(
    [
        ("file", pa.string()),
        ("column", pa.string()),
        ("partition", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("managed", pa.bool_()),
        ("blobs", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
SUMMARY = pa.schema(
    [
        ("column", pa.string()),
        ("partition", pa.string()),
        ("container", pa.string()),
        ("kind", pa.string()),
        ("blobs", pa.int64()),
        ("bytes", pa.int64()),
        ("shared", pa.int64()),
        ("dead_bytes", pa.int64()),
        ("dangling", pa.int64()),
    ]
)
_OWNER = ["file", "column", "partition"]
_HELD_ROWS = 1 << 18


def count_rows(batches: Iterable[pa.RecordBatch], columns: Sequence[str], area: BlobArea) -> Iterator[pa.Table]:
    """Yield tallies of rows with ``partition`` and the placements of `columns`, each under its number.

    Raises InvalidBlobError if the fields of a blob contradict each other.
    """
    held: list[pa.Table] = []
    for batch in batches:
        for number, column in enumerate(columns):
            stored = StoredBlobs.of(batch.column(str(number)), area)
            held.append(count_blobs(column, batch.column("partition"), stored))
        if sum(part.num_rows for part in held) >= _HELD_ROWS:
            yield add_up(pa.concat_tables(held))
            held = []
    if held:
        yield add_up(pa.concat_tables(held))


def tally_of_files(listed: Iterable[FileInfo]) -> pa.Table:
    """Return the tally of files that were listed in a blob area."""
    nothing = dict.fromkeys(("column", "partition"), None) | {"offset": 0, "length": 0, "managed": False, "blobs": 0}
    return pa.Table.from_pylist([{"file": info.uri, **nothing, "bytes": info.size} for info in listed], TALLY)


def count_blobs(column: str, partition: pa.Array, blobs: StoredBlobs) -> pa.Table:
    """Return the tally of some rows, without NULL blobs.

    `column` is the dotted path, `partition` the partition path of each row. Raises InvalidBlobError if the fields of a
    blob contradict each other, as it is then unknown what the blob refers to.
    """
    if blobs.contradicts.any():
        raise InvalidBlobError(
            f"column '{column}' holds blobs that contradict themselves, {int(blobs.contradicts.sum())} among "
            f"{number_of(len(blobs), 'row')}, which cannot be counted; hudi_vector.blobs.verify lists them"
        )
    outside = pa.array(blobs.outside)
    rows = pa.table(
        {
            "file": blobs.file,
            "column": pa.repeat(column, len(blobs)),
            "partition": partition.cast(pa.string()),
            "offset": pc.if_else(outside, pa.array(blobs.begin), 0),
            "length": pc.if_else(outside, pa.array(blobs.count), 0),
            "managed": pc.and_(outside, pc.fill_null(blobs.managed, False)),
            "blobs": pa.repeat(pa.scalar(1, pa.int64()), len(blobs)),
            "bytes": pc.if_else(outside, 0, pc.fill_null(blobs.size, 0)),
        }
    )
    return add_up(rows.filter(pa.array(blobs.inline | blobs.outside)))


def add_up(tally: pa.Table) -> pa.Table:
    """Return a tally with its rows summed to one row for each range of a column, partition and file."""
    keys = [name for name in TALLY.names if name not in ("blobs", "bytes")]
    summed = tally.group_by(keys, use_threads=False).aggregate([("blobs", "sum"), ("bytes", "sum")])
    return summed.rename_columns([name.removesuffix("_sum") for name in summed.schema.names]).select(TALLY.names)


def whole_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables that hold all rows of each of their files, from batches of `TALLY` sorted by file."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        file = pc.fill_null(batch.column("file"), "")
        first = pc.index(file, file[-1]).as_py()
        goes_on = held and not first and pc.fill_null(held[-1].column("file"), "")[-1] == file[0]
        if not goes_on:
            whole = [*held, batch.slice(0, first)]
            if sum(part.num_rows for part in whole):
                yield pa.Table.from_batches(whole)
            held, batch = [], batch.slice(first)  # noqa: PLW2901 - the rest of the batch
        held.append(batch)
    if held:
        yield pa.Table.from_batches(held)


def summarise(tally: pa.Table, area: BlobArea, files: BlobFiles) -> pa.Table:
    """Return one row of `SUMMARY` for each column, partition and file of a tally that holds all rows of its files.

    `area` is the table's blob area; `files` looks up files outside of it. The dead bytes of a file are counted in a
    single row: the one of the column and partition that the file was written for.
    """
    sizes = _sizes(tally, files)
    counted = add_up(tally.filter(pc.is_valid(tally["column"])))
    size = np.array([sizes.get(file, 0) for file in counted["file"].to_pylist()], np.int64)
    begin, count = (counted[name].to_numpy() for name in ("offset", "length"))
    lost = np.isin(presence(begin, count, size), [GONE, DIRECTORY, TOO_SHORT])
    length = np.where(count == TO_THE_END, np.maximum(size - begin, 0), count)
    groups = _groups(counted, length, lost)
    dead = _dead_bytes(counted["file"].to_pylist(), begin, length, {f: s for f, s in sizes.items() if area.owns(f)})
    return pa.Table.from_pylist(list(_rows(groups, dead, area)), SUMMARY)


def _sizes(tally: pa.Table, files: BlobFiles) -> dict[str, int]:
    """Return the size of each file: from the listing, or by a lookup for files that were not listed."""
    listed = tally.filter(pc.is_null(tally["column"]))
    sizes = dict(zip(listed["file"].to_pylist(), listed["bytes"].to_pylist(), strict=True))
    others = [file for file in pc.unique(tally["file"]).to_pylist() if file is not None and file not in sizes]
    # A write in progress may have stored files in the area after the listing; these are looked up too.
    return sizes | dict(zip(others, file_sizes(files, others), strict=True))


def _groups(counted: pa.Table, length: Ints, lost: Any) -> list[dict[str, Any]]:
    """Return one row per column, partition and file, summed over the file's distinct ranges."""
    outside = pc.is_valid(counted["file"])
    ranges = counted.select([*_OWNER, "blobs", "managed"])
    for name, values in {
        "offset": counted["offset"],
        "length": pa.array(length),
        "bytes": pc.if_else(outside, 0, counted["bytes"]),
        "inline": pc.if_else(outside, 0, counted["bytes"]),
        "dangling": pc.if_else(pa.array(lost), counted["blobs"], 0),
    }.items():
        ranges = ranges.append_column(name, values)
    # The same range may be given as a whole file or by numbers, and as managed or not.
    distinct = ranges.group_by([*_OWNER, "offset", "length"], use_threads=False).aggregate(
        [("blobs", "sum"), ("inline", "sum"), ("dangling", "sum"), ("managed", "max")]
    )
    added = distinct.group_by(_OWNER, use_threads=False).aggregate(
        [("blobs_sum", "sum"), ("inline_sum", "sum"), ("dangling_sum", "sum"), ("managed_max", "max"),
         ("length", "sum"), ("length", "count")]
    )  # fmt: skip
    rows: list[dict[str, Any]] = added.to_pylist()
    return rows


def _dead_bytes(file: list[str | None], begin: Ints, length: Ints, sizes: dict[str, int]) -> dict[str, int]:
    """Return how many bytes of each file in `sizes` no range covers."""
    number = {name: index for index, name in enumerate(sizes)}
    of = np.array([number.get(name or "", -1) for name in file], np.int64)
    size = np.maximum(np.fromiter(sizes.values(), np.int64, len(sizes)), 0)
    known = of >= 0
    of, begin, length = of[known], begin[known], length[known]
    begin = np.minimum(begin, size[of])
    end = begin + np.minimum(length, size[of] - begin)
    return dict(zip(sizes, (size - covered_bytes(of, begin, end, len(size))).tolist(), strict=True))


def _rows(groups: list[dict[str, Any]], dead: dict[str, int], area: BlobArea) -> Iterator[dict[str, Any]]:
    left = dict(dead)
    referred = {group["file"] for group in groups}
    for group in sorted(groups, key=lambda group: (group["column"], group["partition"] or "")):
        file, place = group["file"], (group["column"], group["partition"])
        owns = file in left and area.owner(file) in (place, None)
        yield _row(
            group, MANAGED if group["managed_max_max"] or file in dead else EXTERNAL, left.pop(file) if owns else 0
        )
    for file, count in left.items():
        if count or file not in referred:
            column, partition = area.owner(file) or (None, None)
            nothing = dict.fromkeys(("blobs", "bytes", "shared", "dangling"), 0)
            named = {"column": column, "partition": partition, "container": file, "kind": MANAGED}
            yield {**named, **nothing, "dead_bytes": count}


def _row(group: dict[str, Any], kind: str, dead: int) -> dict[str, Any]:
    inline = group["file"] is None
    return {
        "column": group["column"],
        "partition": group["partition"],
        "container": INLINE_ROWS if inline else group["file"],
        "kind": INLINE_ROWS if inline else kind,
        "blobs": group["blobs_sum_sum"],
        "bytes": group["inline_sum_sum"] if inline else group["length_sum"],
        "shared": 0 if inline else group["blobs_sum_sum"] - group["length_count"],
        "dead_bytes": dead,
        "dangling": group["dangling_sum_sum"],
    }
