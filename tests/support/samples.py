"""A table with blobs of every kind to train with, written in Hudi's file formats, and the samples that it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.blob_states import OLD, BlobTable, blob, inline

__all__ = ["ROWS", "Photos", "photos"]

ROWS = 40
CONTENT = bytes(range(200))


@dataclass(frozen=True)
class Photos:
    """A table, its container, and its rows by id: the bytes of the blob, None for NULL."""

    table: BlobTable
    container: Path
    rows: dict[int, bytes | None]

    @property
    def path(self) -> str:
        return str(self.table.path)


def photos(folder: Path, *, logged: bool = True) -> Photos:
    """A table of two base files with INLINE, OUT_OF_LINE and NULL blobs; if `logged`, log files change one of them."""
    settings = {
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
    }
    table = BlobTable(folder.resolve() / "photos", OLD, properties=settings)
    container = table.container("20260101000000000_0123456789ab", size=0)
    (table.path / container).write_bytes(CONTENT)
    rows: dict[int, bytes | None] = {}

    def made(number: int) -> Any:
        if number % 5 == 3:
            rows[number] = None
            return None
        if number % 5 == 4:
            rows[number] = b"inline %d" % number
            return inline(rows[number])
        rows[number] = CONTENT[4 * number : 4 * number + 9]
        return blob(container, 4 * number, 9)

    instant = table.instant()
    table.base("f1", instant, {number: made(number) for number in range(ROWS // 2)})
    table.base("f2", instant, {number: made(number) for number in range(ROWS // 2, ROWS)})
    table.complete(instant, "commit")
    if logged:
        instant = table.instant()
        changed = {1: inline(b"of a log"), 6: blob(container, 100, 7), 4: None, 100: inline(b"new")}
        table.log("f1", instant, changed)
        table.complete(instant)
        rows |= {1: b"of a log", 6: CONTENT[100:107], 4: None, 100: b"new"}
    return Photos(table, table.path / container, rows)
