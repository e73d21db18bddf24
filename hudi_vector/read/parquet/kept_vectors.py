"""Decoded vectors of row groups, and those of them that the cache on disk has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hudi_vector.kernels.topk import VectorBlock, product_dtype
from hudi_vector.read.spec import VectorColumn
from hudi_vector.storage import FileInfo, StorageOptions
from hudi_vector.storage.disk_cache import DiskCache

__all__ = ["Decoded", "KeptVectors"]


@dataclass(frozen=True)
class Decoded:
    """The vectors of a row group, and the numbers of rows left out because they are NULL or invalid."""

    block: VectorBlock
    nulls: int
    invalid: int


class KeptVectors:
    """The decoded vectors of a base file on disk, which all processes of a host map."""

    def __init__(self, cache: DiskCache, file: FileInfo, options: StorageOptions, column: VectorColumn) -> None:
        """Look at nothing yet; `options` tell equal names in different stores apart."""
        self._cache, self._column = cache, column
        place = options.at(file.uri).get("fs.s3a.endpoint") or ""
        self._source = f"{place} {file.uri} {file.size} {file.mtime_ns}"

    def get(self, group: int) -> Decoded | None:
        """Return the vectors of a row group, mapped into memory and read-only, or None."""
        kept = self._cache.get(self._source, self._part(group))
        if kept is None:
            return None
        column = self._column
        whole = np.dtype(np.int64)
        types: tuple[np.dtype[Any], ...] = (column.dtype, whole, product_dtype(column.dtype), whole)
        values, positions, squares, odd = (
            np.frombuffer(piece, kind) for piece, kind in zip(kept.pieces, types, strict=True)
        )
        block = VectorBlock(values.reshape(len(positions), column.dimension), positions, squares, odd)
        return Decoded(block, kept.about["nulls"], kept.about["invalid"])

    def put(self, group: int, decoded: Decoded) -> None:
        """Keep the vectors of a row group, if the cache takes them."""
        block = decoded.block
        arrays = (block.values, block.positions, block.squares, block.odd.astype(np.int64, copy=False))
        about = {"nulls": decoded.nulls, "invalid": decoded.invalid}
        self._cache.put(self._source, self._part(group), [np.ascontiguousarray(array) for array in arrays], about)

    def _part(self, group: int) -> str:
        column = self._column
        return f"vectors {group} {column.dimension} {column.element} {column.is_vector} {column.name}"
