"""Hudi tables laid out by hand in milliseconds: files named and filled as Hudi 1.2 names and fills them.

Only the Spark-free tests use them; tables of Hudi's own writers are searched in the integration tests.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.properties_file import write_properties

META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path")
START = 20260101000000000

_METADATA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Metadata",
        "fields": [
            {"name": "operationType", "type": ["null", "string"], "default": None},
            {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}], "default": None},
            {
                "name": "partitionToReplaceFileIds",
                "type": ["null", {"type": "map", "values": {"type": "array", "items": "string"}}],
                "default": None,
            },
            {"name": "earliestCommitToRetain", "type": ["null", "string"], "default": None},
            {
                "name": "partitionMetadata",
                "type": [
                    "null",
                    {
                        "type": "map",
                        "values": {
                            "type": "record",
                            "name": "Cleaned",
                            "fields": [{"name": "successDeleteFiles", "type": {"type": "array", "items": "string"}}],
                        },
                    },
                ],
                "default": None,
            },
        ],
    }
)


@dataclass(frozen=True)
class Row:
    """One row: its key, its partition, two values, its vector (None for NULL)."""

    id: int
    group: str
    price: float | None
    name: str | None
    emb: tuple[float, ...] | None

    @property
    def key(self) -> str:
        return str(self.id)


@dataclass
class WrittenTable:
    """A table of the columns id, name, price, grp and emb, written file by file."""

    path: Path
    dimension: int = 4
    element: str = "float"
    partitioned: bool = True
    hive_style: bool = False
    has_meta_fields: bool = True
    is_nullable: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    row_group_rows: int | None = None
    page_bytes: int = 0
    filter_bytes: int = 0
    clock: int = START

    def __post_init__(self) -> None:
        self.timeline.mkdir(parents=True, exist_ok=True)
        settings = {
            "hoodie.table.name": "written",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.keygenerator.type": "SIMPLE" if self.partitioned else "NON_PARTITION",
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.populate.meta.fields": str(self.has_meta_fields).lower(),
            "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower(),
            **({"hoodie.table.partition.fields": "grp"} if self.partitioned else {}),
            **self.properties,
        }
        write_properties(self.path, settings)

    @property
    def timeline(self) -> Path:
        """The folder of the instants."""
        return self.path / ".hoodie" / "timeline"

    @property
    def width(self) -> int:
        """Bytes of one vector."""
        return self.dimension * np.dtype(self.dtype).itemsize

    @property
    def dtype(self) -> str:
        """The stored type of one element."""
        return {"float": "<f4", "double": "<f8", "int8": "i1"}[self.element]

    def next_instant(self) -> str:
        """A time later than all given before."""
        self.clock += 1000
        return str(self.clock)

    def avro_schema(self, with_vector: bool = True) -> str:
        """The schema a commit records."""
        vector = {
            "type": "fixed",
            "name": "vector_emb",
            "size": self.width,
            "logicalType": "vector",
            "dimension": self.dimension,
            "elementType": self.element.upper(),
            "storageBacking": "FIXED_BYTES",
        }
        fields: list[dict[str, Any]] = [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"], "default": None},
            {"name": "price", "type": ["null", "double"], "default": None},
            {"name": "grp", "type": ["null", "string"], "default": None},
        ]
        if with_vector:
            fields.append({"name": "emb", "type": ["null", vector] if self.is_nullable else vector})
        return json.dumps({"type": "record", "name": "written_record", "fields": fields})

    def partition_path(self, group: str) -> str:
        """Where the rows of a group lie."""
        if not self.partitioned:
            return ""
        return f"grp={group}" if self.hive_style else group

    def write_base(self, group: str, file_id: str, instant: str, rows: Sequence[Row], with_vector: bool = True) -> Path:
        """A base file with these rows."""
        folder = self.path / self.partition_path(group)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{file_id}_0-1-2_{instant}.parquet"
        table = self._table(group, file.name, instant, rows, with_vector)
        size = self.row_group_rows or max(len(rows), 1)
        how: dict[str, Any] = {"use_dictionary": False, "compression": "snappy"}
        if self.page_bytes:
            how |= {"data_page_size": self.page_bytes, "write_batch_size": 8, "write_page_index": True}
        if not self.filter_bytes:
            pq.write_table(table, file, row_group_size=size, **how)
            return file
        # Hudi's writer leaves out Arrow's schema, and puts a Bloom filter and the least key into the footer.
        with pq.ParquetWriter(file, table.schema, store_schema=False, write_page_index=True, **how) as writer:
            writer.write_table(table, row_group_size=size)
            least = min((row.key for row in rows), default="")
            writer.add_key_value_metadata(
                {"org.apache.hudi.bloomfilter": "x" * self.filter_bytes, "hoodie_min_record_key": least}
            )
        return file

    def complete(
        self,
        instant: str,
        action: str = "commit",
        done: str | None = None,
        replaced: Mapping[str, Iterable[str]] | None = None,
        earliest: str | None = None,
        cleaned: Mapping[str, Sequence[str]] | None = None,
        with_vector: bool = True,
        extra: Mapping[str, str] | None = None,
    ) -> str:
        """The instant's completed file; its completion time is given back."""
        done = done or self.next_instant()
        record: dict[str, Any] = {}
        if action in ("commit", "deltacommit", "replacecommit"):
            record["operationType"] = "UPSERT" if action != "replacecommit" else "CLUSTER"
            record["extraMetadata"] = {"schema": self.avro_schema(with_vector), **(extra or {})}
        if replaced is not None:
            record["partitionToReplaceFileIds"] = {path: list(ids) for path, ids in replaced.items()}
        if earliest is not None:
            record["earliestCommitToRetain"] = earliest
        if cleaned is not None:
            record["partitionMetadata"] = {path: {"successDeleteFiles": list(names)} for path, names in cleaned.items()}
        buffer = io.BytesIO()
        fastavro.writer(buffer, _METADATA, [record])
        (self.timeline / f"{instant}_{done}.{action}").write_bytes(buffer.getvalue())
        return done

    def begin(self, instant: str, action: str = "commit") -> None:
        """The marks of an action that has not completed."""
        (self.timeline / f"{instant}.{action}.requested").touch()
        name = f"{instant}.inflight" if action == "commit" else f"{instant}.{action}.inflight"
        (self.timeline / name).touch()

    def commit(self, files: Mapping[tuple[str, str], Sequence[Row]], **options: Any) -> str:
        """Base files by (group, file id), and their instant completed."""
        instant = self.next_instant()
        for (group, file_id), rows in files.items():
            self.write_base(group, file_id, instant, rows, options.get("with_vector", True))
        self.begin(instant, "clustering" if options.get("action") == "replacecommit" else "commit")
        self.complete(instant, **options)
        return instant

    def remove(self, group: str, file_id: str, instant: str) -> None:
        """A base file, as a clean removes it."""
        os.remove(self.path / self.partition_path(group) / f"{file_id}_0-1-2_{instant}.parquet")

    def clean(self, files: Iterable[tuple[str, str, str]], earliest: str) -> str:
        """A clean that removes base files by (group, file id, instant); the instant of the clean is given back."""
        instant, cleaned = self.next_instant(), dict[str, list[str]]()
        for group, file_id, written in files:
            self.remove(group, file_id, written)
            name = f"{file_id}_0-1-2_{written}.parquet"
            cleaned.setdefault(self.partition_path(group), []).append(name)
        self.begin(instant, "clean")
        self.complete(instant, "clean", earliest=earliest, cleaned=cleaned)
        return instant

    def save(self, instant: str, files: Mapping[str, Sequence[str]]) -> None:
        """A savepoint of a commit, which keeps files by the partition's path."""
        text = json.dumps(
            {"partitionMetadata": {path: {"savepointDataFile": list(names)} for path, names in files.items()}}
        )
        (self.timeline / f"{instant}_{self.next_instant()}.savepoint").write_text(text)

    def plan_clean(self, instant: str, files: Mapping[str, Sequence[str]]) -> None:
        """The plan of a clean that has begun and not ended, which names files by the partition's path."""
        planned = {
            path: [{"filePath": f"{self.path}/{path}/{name}"} for name in names] for path, names in files.items()
        }
        text = json.dumps({"filePathsToBeDeletedPerPartition": planned})
        (self.timeline / f"{instant}.clean.requested").write_text(text)

    def _table(self, group: str, file_name: str, instant: str, rows: Sequence[Row], with_vector: bool) -> pa.Table:
        filled = self.has_meta_fields
        count = len(rows)
        columns: dict[str, pa.Array] = {
            "_hoodie_commit_time": _text([instant] * count, filled),
            "_hoodie_commit_seqno": _text([f"{instant}_0_{i}" for i in range(count)], filled),
            "_hoodie_record_key": _text([row.key for row in rows], filled),
            "_hoodie_partition_path": _text([self.partition_path(group)] * count, filled),
            "_hoodie_file_name": _text([file_name] * count, filled),
            "id": pa.array([row.id for row in rows], pa.int64()),
            "name": pa.array([row.name for row in rows], pa.string()),
            "price": pa.array([row.price for row in rows], pa.float64()),
            "grp": pa.array([row.group for row in rows], pa.string()),
        }
        fields = [pa.field(name, column.type, name != "id") for name, column in columns.items()]
        if with_vector:
            raw = [None if row.emb is None else np.array(row.emb, self.dtype).tobytes() for row in rows]
            columns["emb"] = pa.array(raw, pa.binary(self.width))
            fields.append(pa.field("emb", pa.binary(self.width), self.is_nullable))
        suffix = "" if self.element == "float" else f", {self.element.upper()}"
        footer = {"hoodie.vector.columns": f"emb:VECTOR({self.dimension}{suffix})"} if with_vector else None
        return pa.table(list(columns.values()), schema=pa.schema(fields, metadata=footer))


def rows_of(count: int, group: str = "a", seed: int = 0, first: int = 0, dimension: int = 4) -> list[Row]:
    """Rows with random vectors and prices."""
    numbers = np.random.default_rng(seed)
    vectors = numbers.standard_normal((count, dimension)).astype(np.float32)
    return [
        Row(first + i, group, float(numbers.integers(0, 100)), f"name {first + i}", tuple(map(float, vector)))
        for i, vector in enumerate(vectors)
    ]


def brute_force(
    rows: Iterable[Row], query: Sequence[float], k: int, metric: str = "l2"
) -> list[tuple[float, str, str]]:
    """(distance, record key, group) of the k nearest rows, by plain formulas and in the documented order."""
    found = []
    asked = np.asarray(query, np.float64)
    for row in rows:
        if row.emb is None:
            continue
        vector = np.asarray(row.emb, np.float64)
        found.append((_distance(vector, asked, metric), row.key, row.group))
    return sorted(found, key=lambda entry: (entry[0], entry[1].encode(), entry[2].encode()))[:k]


def _distance(vector: np.ndarray, query: np.ndarray, metric: str) -> float:
    if metric == "l2":
        return float(np.sqrt(((vector - query) ** 2).sum()))
    dot = float((vector * query).sum())
    if metric == "dot_product":
        return 0.0 - dot
    norms = float(np.sqrt((vector**2).sum()) * np.sqrt((query**2).sum()))
    return min(max(1.0 - dot / norms, 0.0), 2.0) if norms else 1.0


def _text(values: list[str], filled: bool) -> pa.Array:
    return pa.array(values if filled else [None] * len(values), pa.string())
