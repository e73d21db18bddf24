"""States of tables with BLOB columns, written straight in Hudi's file formats: thousands in the time of one commit.

Real Hudi reads such a table (tests/integration/test_marks.py); all other tests of it need no Spark.
"""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from lance.file import LanceFileWriter

from hudi_vector.blobs.names import BLOB_AREA, ContainerName
from hudi_vector.table.avro_names import with_full_names
from support.properties_file import write_properties

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_790_000_000_000
"""The time at which tests look at states, in epoch milliseconds."""
OLD = NOW - 30 * DAY
"""When states begin: every grace is over."""

META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
REFERENCE = pa.struct(
    [("external_path", pa.string()), ("offset", pa.int64()), ("length", pa.int64()), ("managed", pa.bool_())]
)
BLOB = pa.struct([("type", pa.string()), ("data", pa.binary()), ("reference", REFERENCE)])

_AVRO_REFERENCE = {
    "type": "record",
    "name": "reference",
    "fields": [
        {"name": "external_path", "type": "string"},
        {"name": "offset", "type": ["null", "long"]},
        {"name": "length", "type": ["null", "long"]},
        {"name": "managed", "type": "boolean"},
    ],
}
AVRO_BLOB = {
    "type": "record",
    "name": "blob",
    "namespace": "",
    "fields": [
        {
            "name": "type",
            "type": {"type": "enum", "name": "blob_storage_type", "symbols": ["INLINE", "OUT_OF_LINE"]},
        },
        {"name": "data", "type": ["null", "bytes"], "default": None},
        {"name": "reference", "type": ["null", _AVRO_REFERENCE], "default": None},
    ],
    "logicalType": "blob",
}
_COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": ["null", "int"], "default": None},
    {"name": "ts", "type": ["null", "long"], "default": None},
    {"name": "img", "type": ["null", AVRO_BLOB], "default": None},
]
SCHEMA = {"type": "record", "name": "states_record", "namespace": "hoodie.states", "fields": _COLUMNS}
WITH_META = {
    **SCHEMA,
    "fields": [*({"name": name, "type": ["null", "string"], "default": None} for name in META), *_COLUMNS],
}

_STATS = {"type": "record", "name": "HoodieWriteStat", "fields": [{"name": "fileId", "type": ["null", "string"]}]}
_EXTRA = {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}], "default": None}
_COMMIT = {
    "type": "record",
    "name": "HoodieCommitMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {
            "name": "partitionToWriteStats",
            "type": ["null", {"type": "map", "values": {"type": "array", "items": _STATS}}],
            "default": None,
        },
        {"name": "compacted", "type": ["null", "boolean"], "default": None},
        _EXTRA,
        {"name": "operationType", "type": ["null", "string"], "default": None},
    ],
}
_REPLACE = {
    **_COMMIT,
    "name": "HoodieReplaceCommitMetadata",
    "fields": [
        *_COMMIT["fields"],
        {
            "name": "partitionToReplaceFileIds",
            "type": ["null", {"type": "map", "values": {"type": "array", "items": "string"}}],
            "default": None,
        },
    ],
}
_SAVED_FILES = {
    "type": "record",
    "name": "HoodieSavepointPartitionMetadata",
    "fields": [
        {"name": "partitionPath", "type": "string"},
        {"name": "savepointDataFile", "type": {"type": "array", "items": "string"}},
    ],
}
_SAVEPOINT = {
    "type": "record",
    "name": "HoodieSavepointMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "savepointedBy", "type": "string"},
        {"name": "savepointedAt", "type": "long"},
        {"name": "comments", "type": "string"},
        {"name": "partitionMetadata", "type": {"type": "map", "values": _SAVED_FILES}},
    ],
}


def blob(path: str | None, offset: int | None = 0, length: int | None = 5, managed: bool = True) -> dict[str, Any]:
    """An OUT_OF_LINE blob."""
    return {
        "type": "OUT_OF_LINE",
        "data": None,
        "reference": {"external_path": path, "offset": offset, "length": length, "managed": managed},
    }


def inline(data: bytes | None) -> dict[str, Any]:
    """An INLINE blob."""
    return {"type": "INLINE", "data": data, "reference": None}


def parquet(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> bytes:
    """A Parquet file."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema), sink, store_schema=False)
    return sink.getvalue()


def block(kind: int, header: Mapping[int, bytes], content: bytes, version: int = 1) -> bytes:
    """A block of a log file."""
    entries = b"".join(struct.pack(">ii", key, len(value)) + value for key, value in header.items())
    body = struct.pack(">iii", version, kind, len(header)) + entries
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def avro_block(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], instant: str, version: int = 3) -> bytes:
    """A block of rows in Avro."""
    # Full names for fastavro; in the block the names stand as Java writes them.
    parsed = fastavro.parse_schema(with_full_names(schema))
    content = struct.pack(">ii", version, len(rows))
    for row in rows:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, row)
        content += struct.pack(">i", len(sink.getvalue())) + sink.getvalue()
    return block(3, {0: instant.encode(), 2: json.dumps(schema).encode()}, content)


def parquet_block(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], instant: str) -> bytes:
    """A block of rows in Parquet."""
    return block(5, {0: instant.encode(), 2: json.dumps(schema).encode()}, parquet(rows, ARROW))


def change_schema(kind: Any) -> dict[str, Any]:
    """The schema of changed rows, as Hudi writes it: the type of the row before stands there, the next is named."""
    after = f"{kind['namespace']}.{kind['name']}" if isinstance(kind, dict) else kind
    text = ["null", "string"]
    return {
        "type": "record",
        "name": "CDC",
        "fields": [
            {"name": "op", "type": text},
            {"name": "ts_ms", "type": text},
            {"name": "before", "type": ["null", kind]},
            {"name": "after", "type": ["null", after]},
        ],
    }


def change_block(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], instant: str) -> bytes:
    """A block of changed rows, which differs from one of rows by its type."""
    content = avro_block(rows, schema, instant)
    kind = len(b"#HUDI#") + 8 + 4
    return content[:kind] + struct.pack(">i", 6) + content[kind + 4 :]


ARROW = pa.schema([*((name, pa.string()) for name in META), ("id", pa.int32()), ("ts", pa.int64()), ("img", BLOB)])


@dataclass
class BlobTable:
    """A table of the columns id, ts and img, not partitioned unless a file is given a partition.

    `clock_ms` is the time of the next thing that happens, UTC; each instant moves it on by a second.
    """

    path: Path
    clock_ms: int
    merge_on_read: bool = True
    zone: str = "UTC"
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.timeline.mkdir(parents=True, exist_ok=True)
        settings = {
            "hoodie.table.name": "states",
            "hoodie.table.type": "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.table.keygenerator.type": "NON_PARTITION",
            "hoodie.table.timeline.timezone": self.zone,
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            **self.properties,
        }
        write_properties(self.path, settings)
        (self.path / ".hoodie_partition_metadata").write_text("commitTime=0\npartitionDepth=0\n")

    @property
    def uri(self) -> str:
        """The base path as references spell it."""
        return f"file://{self.path}"

    @property
    def timeline(self) -> Path:
        """The folder of the instants."""
        return self.path / ".hoodie" / "timeline"

    def instant(self) -> str:
        """A time later than all before."""
        self.clock_ms += 1000
        return digits(self.clock_ms)

    def container(self, write_id: str, number: int = 0, size: int = 100, column: str = "img") -> str:
        """A container of a write, as old as the clock says; its path from the table's folder."""
        name = ContainerName("", column, write_id, 0, 0, number, "blob")
        path = Path(name.uri(str(self.path)))
        return self.file(str(path.relative_to(self.path)), b"x" * size)

    def file(self, relative: str, content: bytes) -> str:
        """Any file, as old as the clock says."""
        path = self.path / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.touch(path)
        return relative

    def touch(self, path: Path, at_ms: int | None = None) -> None:
        """Set a file's time."""
        at = self.clock_ms if at_ms is None else at_ms
        os.utime(path, ns=(at * 1_000_000, at * 1_000_000))

    def base(self, file_id: str, instant: str, blobs: Mapping[int, Any], partition: str = "") -> Path:
        """A base file with a row for each id."""
        name = f"{file_id}_0-1-2_{instant}.parquet"
        content = parquet(rows_of(blobs, instant, file_id, partition, name), ARROW)
        return self.path / self.file(f"{partition}/{name}".lstrip("/"), content)

    def lance(self, file_id: str, instant: str, blobs: Mapping[int, Any]) -> Path:
        """A base file of Lance with a row for each id."""
        name = f"{file_id}_0-1-2_{instant}.lance"
        with LanceFileWriter(str(self.path / name), ARROW) as writer:
            writer.write_batch(pa.Table.from_pylist(rows_of(blobs, instant, file_id, "", name), ARROW))
        self.touch(self.path / name)
        return self.path / name

    def changes(self, file_id: str, instant: str, blobs: Mapping[int, Any]) -> Path:
        """A log file of changed rows: each blob stands in a row before or in a row after a change."""
        rows = rows_of(blobs, instant, file_id, "", file_id)
        sides = [{"before": row, "after": None} if row["id"] % 2 else {"before": None, "after": row} for row in rows]
        content = change_block([{"op": "u", "ts_ms": "1", **side} for side in sides], change_schema(WITH_META), instant)
        return self.path / self.file(f".{file_id}_{instant}.log.1_0-1-2.cdc", content)

    def log(
        self, file_id: str, instant: str, blobs: Mapping[int, Any], form: str = "avro", partition: str = ""
    ) -> Path:
        """A log file of one block, in Avro or Parquet."""
        rows = rows_of(blobs, instant, file_id, partition, file_id)
        made = avro_block if form == "avro" else parquet_block
        return self.raw_log(file_id, instant, made(rows, WITH_META, instant), partition)

    def raw_log(self, file_id: str, instant: str, content: bytes, partition: str = "") -> Path:
        """A log file of these bytes."""
        name = f".{file_id}_{instant}.log.1_0-1-2"
        return self.path / self.file(f"{partition}/{name}".lstrip("/"), content)

    def begin(self, instant: str, action: str = "deltacommit") -> None:
        """The marks of an action that has not completed."""
        for state in ("requested", "inflight"):
            name = f"{instant}.{action}.{state}" if (action, state) != ("commit", "inflight") else f"{instant}.inflight"
            (self.timeline / name).touch()
            self.touch(self.timeline / name)

    def complete(self, instant: str, action: str = "deltacommit", replaced: Sequence[str] = ()) -> None:
        """The completed action."""
        schema_text = {"schema": json.dumps(SCHEMA)}
        record: dict[str, Any] = {
            "compacted": False,
            "partitionToWriteStats": {},
            "operationType": "UPSERT",
            "extraMetadata": schema_text,
        }
        schema = _COMMIT
        if action == "replacecommit":
            schema = _REPLACE
            record |= {"operationType": "INSERT_OVERWRITE_TABLE", "partitionToReplaceFileIds": {"": list(replaced)}}
        self._action(f"{instant}_{self.instant()}.{action}", schema, record)

    def savepoint(self, instant: str, files: Sequence[Path]) -> None:
        """A savepoint of a commit."""
        names = {"": {"partitionPath": "", "savepointDataFile": [file.name for file in files]}}
        record = {"savepointedBy": "", "savepointedAt": self.clock_ms, "comments": "", "partitionMetadata": names}
        self._action(f"{instant}_{self.instant()}.savepoint", _SAVEPOINT, record)

    def _action(self, name: str, schema: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        buffer = io.BytesIO()
        fastavro.writer(buffer, fastavro.parse_schema(json.loads(json.dumps(schema))), [record])
        (self.timeline / name).write_bytes(buffer.getvalue())


def rows_of(blobs: Mapping[int, Any], instant: str, file_id: str, partition: str, name: str) -> list[dict[str, Any]]:
    """A row for each id and its blob."""
    return [
        {
            "_hoodie_commit_time": instant,
            "_hoodie_commit_seqno": f"{instant}_0_{number}",
            "_hoodie_record_key": str(key),
            "_hoodie_partition_path": partition,
            "_hoodie_file_name": name,
            "id": key,
            "ts": int(instant),
            "img": value,
        }
        for number, (key, value) in enumerate(blobs.items())
    ]


def write_id(at_ms: int, number: int) -> str:
    """The id of a write of that time, the same for the same number."""
    return f"{digits(at_ms)}_{number:012x}"


def digits(at_ms: int) -> str:
    """A time as 17 digits in UTC."""
    return f"{datetime.fromtimestamp(at_ms // 1000, timezone.utc):%Y%m%d%H%M%S}{at_ms % 1000:03d}"


def area(table: BlobTable) -> Path:
    """The blob area."""
    return table.path / BLOB_AREA
