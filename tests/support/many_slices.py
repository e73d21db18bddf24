"""A table of very many small file slices, its base files written directly after one that Hudi wrote."""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_BLOOM = (b"org.apache.hudi.bloomfilter", b"hoodie_bloom_filter_type_code", b"hoodie_min_record_key")


def multiply(path: Path, count: int) -> None:
    """Add file groups to a non-partitioned copy-on-write table that has one commit with one base file.

    Args:
        path: The table; its columns are id, price, ts and emb, a VECTOR of 4 floats.
        count: How many file groups are added, each with two rows.
    """
    (first,) = path.glob("*.parquet")
    schema = pq.read_schema(first)
    _, token, instant = first.stem.split("_")
    written = []
    for number in range(count):
        name = f"{uuid.uuid4()}-0_{token}_{instant}.parquet"
        _write_base_file(path / name, schema, instant, number)
        written.append(name)
    _extend_commit(path, first.name, written)


def _write_base_file(file: Path, schema: pa.Schema, instant: str, number: int) -> None:
    ids = [1000 + 2 * number, 1001 + 2 * number]
    vectors = np.random.default_rng(number).standard_normal((2, 4)).astype("<f4")
    columns: dict[str, Any] = {
        "_hoodie_commit_time": [instant] * 2,
        "_hoodie_commit_seqno": [f"{instant}_{number + 1}_{row}" for row in range(2)],
        "_hoodie_record_key": [str(i) for i in ids],
        "_hoodie_partition_path": [""] * 2,
        "_hoodie_file_name": [file.name] * 2,
        "id": ids,
        "price": [float(i % 1000) for i in ids],
        "ts": [1, 1],
        "emb": [vector.tobytes() for vector in vectors],
    }
    footer = {key: value for key, value in schema.metadata.items() if not key.startswith(_BLOOM)}
    footer |= {b"hoodie_min_record_key": str(ids[0]).encode(), b"hoodie_max_record_key": str(ids[1]).encode()}
    table = pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)
    pq.write_table(table.replace_schema_metadata(footer), file, store_schema=False)


def _extend_commit(path: Path, first: str, names: list[str]) -> None:
    """Record the added files in the commit that wrote the first one."""
    (commit,) = (entry for entry in (path / ".hoodie/timeline").glob("*_*.commit") if not entry.name.startswith("."))
    reader = fastavro.reader(io.BytesIO(commit.read_bytes()))
    record, schema = next(reader), reader.writer_schema
    (stats,) = record["partitionToWriteStats"].values()
    known = next(entry for entry in stats if entry["path"].endswith(first))
    for name in names:
        size = (path / name).stat().st_size
        stats.append({**known, "fileId": name.split("_")[0], "path": name, "numWrites": 2, "fileSizeInBytes": size})
    with commit.open("wb") as file:
        fastavro.writer(file, schema, [record])
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
