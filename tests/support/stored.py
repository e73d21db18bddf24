"""Blobs as Spark hands them to the counts and checks: without their bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.scans.placements import PLACEMENT_TYPE
from hudi_vector.blobs.stored_blobs import StoredBlobs

CONTRADICTIONS: list[dict[str, Any]] = [
    {"kind": "OTHER", "size": 1},
    {"kind": "INLINE"},
    {"kind": "OUT_OF_LINE"},
    {"size": 3},
    {"path": "/x"},
    {"kind": "OUT_OF_LINE", "path": "/x", "offset": -1, "length": 5},
    {"kind": "OUT_OF_LINE", "path": "/x", "offset": 0, "length": -1},
    {"kind": "OUT_OF_LINE", "path": ""},
    {"kind": "OUT_OF_LINE", "path": "../../x"},
]


def ref(path: str, offset: int | None = 0, length: int | None = 5, managed: bool | None = True) -> dict[str, Any]:
    """A reference."""
    return {"kind": "OUT_OF_LINE", "size": None, "path": path, "offset": offset, "length": length, "managed": managed}


def inline(size: int) -> dict[str, Any]:
    """An INLINE blob."""
    return {"kind": "INLINE", "size": size}


def stored(area: BlobArea, *blobs: dict[str, Any] | None) -> StoredBlobs:
    """Some blobs; a NULL one comes as a struct of NULLs."""
    array = pa.array(blobs, PLACEMENT_TYPE)
    return StoredBlobs.of(pa.StructArray.from_arrays(array.flatten(), fields=list(PLACEMENT_TYPE)), area)
