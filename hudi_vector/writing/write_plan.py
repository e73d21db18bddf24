"""The decisions about a write, which are made before rows are read."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_vector.blobs.storing.writer import BlobColumn
from hudi_vector.writing.hudi_options import Settings
from hudi_vector.writing.layout import Layout
from hudi_vector.writing.request import WriteRequest
from hudi_vector.writing.target import Target
from hudi_vector.writing.vectors.columns import VectorColumn

__all__ = ["WritePlan"]


@dataclass(frozen=True)
class WritePlan:
    """All decisions that are made before rows are read."""

    request: WriteRequest
    target: Target
    layout: Layout
    settings: Settings
    policy: str
    erased: str
    columns: list[VectorColumn]
    blobs: tuple[BlobColumn, ...]
    has_vectors: bool
