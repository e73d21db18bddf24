"""Blobs of a Hudi table as a PyTorch dataset: references travel, each worker reads the bytes of its share.

rows = spark.table("photos").select("id", "label", "image").collect()
references = pa.Table.from_pylist([row.asDict(recursive=True) for row in rows])   # or any Arrow table with blobs
loader = torch.utils.data.DataLoader(BlobDataset(references, "image", decode), num_workers=4, batch_size=None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from torch.utils.data import IterableDataset, get_worker_info

import hudi_vector as hv


class BlobDataset(IterableDataset):
    """Rows with the bytes of their blobs.

    Args:
        references: Rows with a BLOB column, small where blobs lie out of line.
        column: The BLOB column.
        decode: Makes a sample of a row, a dict of the other columns, and its bytes, None for NULL.
        memory_budget: Bytes that a worker reads at a time.
    """

    def __init__(
        self,
        references: pa.Table,
        column: str,
        decode: Callable[[dict[str, Any], bytes | None], Any],
        memory_budget: int = 64 << 20,
    ) -> None:
        super().__init__()
        self.references = references
        self.column = column
        self.decode = decode
        self.memory_budget = memory_budget

    def __iter__(self) -> Iterator[Any]:
        # Neighbouring rows lie in one container: a share of neighbours is read in few reads.
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        rows = self.references.num_rows
        first, last = rows * number // workers, rows * (number + 1) // workers
        share = self.references.slice(first, last - first)
        for row, data in hv.blobs.iter_bytes(share, self.column, rows=True, memory_budget=self.memory_budget):
            yield self.decode(row, data)
