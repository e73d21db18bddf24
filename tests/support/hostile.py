"""Tables with one side file of each kind, what a stranger may write into them, and what must stay as it is beside them.

A stranger can compute checksums: what is changed here is sealed again, tables and their manifests too.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.blobs.registry import REGISTERED, enter
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.uploads import manifest as uploads
from hudi_vector.blobs.uploads.external_files import Pins
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.side_files import is_side_file, seal
from hudi_vector.table.timeline import Instant
from hudi_vector.table_services.erasure.record import ErasureRecord, publish_record
from hudi_vector.table_services.maintenance.figures import ColumnFigures, Figures, IndexFigures
from hudi_vector.table_services.maintenance.history import Run, StepOutcome, add_run
from hudi_vector.table_services.marking.container_index import container_index
from hudi_vector.table_services.marking.files import publish_mark
from hudi_vector.table_services.marking.kept_uploads import KeptUploads
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.plans.clustering import ClusteringPlan, PlannedGroup
from hudi_vector.table_services.plans.clustering_files import ClusteringRun, publish_clustering
from hudi_vector.table_services.plans.compaction import CompactionPlan, PlannedContainer
from hudi_vector.table_services.plans.compaction_files import PendingCommit, publish_plan, publish_run
from hudi_vector.table_services.plans.plan_files import RUNNING
from hudi_vector.table_services.references.kept import KeptReferences
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.trash.sweep_record import begin_sweep
from hudi_vector.writing.erased.deny_list import ERASED_KEYS, add_erased
from support.blob_states import BlobTable, blob, write_id

DAY = 86_400_000
NOW = time.time_ns() // 1_000_000
OLD = NOW - 60 * DAY
LOCAL = StorageOptions()
KEYS = ("1",)
Json = Any
Place = tuple[Any, ...]
"""Keys and numbers that lead to a value in a body."""


class Lair:
    """A folder with a table, and beside it what nobody may touch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = BlobTable(root / "t", OLD)
        self.victim = root / "victim"
        self.media = root / "media"
        for path in (self.victim / "deep/ledger.txt", self.victim / write_id(OLD, 9) / "x", self.media / "cat.png"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"precious")
        self.orphan = self.table.container(write_id(OLD, 1))
        self.kept = self.table.container(write_id(OLD, 2))
        instant = self.table.instant()
        self.table.base("f1", instant, {1: blob(self.kept)})
        self.table.complete(instant, "commit")

    @property
    def uri(self) -> str:
        """The table."""
        return self.table.uri

    @property
    def service(self) -> Path:
        """Where the services of the table note what they do."""
        return self.table.path / ".hoodie/blob_service/v1"

    def precious(self, *notes: str) -> dict[str, bytes | str]:
        """All that no side file may change: what lies beside the table and the folders `notes`, its data and timeline."""
        own = {f"{self.table.path}/.hoodie/{name}" for name in ("blob_service", "blob_refs", "vector_index", "blobs")}
        own.add(f"{self.root}/other/.hoodie/blob_service")  # which shares its blobs, and notes it
        own |= {f"{self.root}/{name}" for name in notes}
        found: dict[str, bytes | str] = {}
        for folder, folders, names in os.walk(self.root):
            # A folder of notes of its own may appear where there was none.
            folders[:] = [name for name in folders if f"{folder}/{name}" not in own]
            found[folder] = "a folder"
            for path in (f"{folder}/{name}" for name in names):
                if path not in own:
                    with open(path, "rb") as file:
                        found[path] = file.read()
        return found

    def unneeded(self) -> Any:
        """A mark by itself."""
        return find_unneeded(self.uri, grace_ms=DAY)


def _upload(lair: Lair) -> None:
    settings = {"img": BlobSettings()}
    upload = uploads.open_upload(lair.uri, settings, lease_ms=600_000)
    folder = uploads.uploads_folder(upload.table, upload.write_id)
    storage = open_storage(lair.uri, LOCAL)
    pins = Pins()
    pins.note([str(lair.media / "cat.png")], storage.filesystem.get_file_info([str(lair.media / "cat.png")]))
    pinned = pins.publish(upload.table, upload.write_id, LOCAL)
    assert pinned is not None
    uploads.stage(lair.uri, upload.write_id, [], pins=[pinned])
    checksums = uploads.publish_table(storage, folder, uploads.CHECKSUMS_OF_BLOBS, _checksums(lair.kept))
    (newest,) = Path(lair.table.path, uploads.UPLOADS, upload.write_id).glob("1*-*")
    container = uploads.StagedContainer(lair.kept, "", "img", 100, 1, 100)
    body = body_of(newest) | {"checksums": asdict(checksums), "containers": [asdict(container)]}
    newest.write_bytes(seal("upload", 1, body))


def _checksums(path: str) -> pa.Table:
    columns = {"path": [path], "method": ["crc32c"], "offset": [0], "length": [100], "checksum": [b"abcd"]}
    return pa.table(columns)


def _lease(lair: Lair) -> None:
    """As a run leaves it that was killed long ago; one that ends leaves nothing."""
    lease = ServiceLease(lair.uri, "clean", now_ms=lambda: OLD).__enter__()
    lease._renewals.__exit__(None, None, None)


def _registered(lair: Lair) -> None:
    other = BlobTable(lair.root / "other", OLD)
    instant = other.instant()
    other.base("f1", instant, {1: None})
    other.complete(instant, "commit")
    enter(lair.uri, other.uri, REGISTERED)


def _plan(lair: Lair, number: int) -> CompactionPlan:
    container = PlannedContainer(lair.orphan, "", "img", 100, 10, "repack", "why", 0)
    return CompactionPlan(write_id(OLD, number), lair.uri, OLD, ("img",), (container,), 100, 50)


def _compaction(lair: Lair) -> None:
    run = publish_plan(_plan(lair, 5))
    pending = PendingCommit(write_id(OLD, 6), "token", (Instant("1", "2", "commit"),))
    publish_run(replace(run, state=RUNNING, pending=pending))


def _clustering(lair: Lair) -> None:
    group = PlannedGroup("p/f1", 10, "cluster", "why", ("a.parquet",))
    plan = ClusteringPlan(
        write_id(OLD, 7), lair.uri, OLD, ("id",), (), (group,), ("1",), BlobSettings(), 0, 0, _plan(lair, 8)
    )
    publish_clustering(replace(publish_clustering(ClusteringRun(plan)), state=RUNNING, instants=("20260101000000000",)))


def _sweep(lair: Lair) -> None:
    mark = lair.unneeded()
    storage = open_storage(lair.uri, LOCAL)
    begun = begin_sweep(storage, lair.uri, mark.mark_id, mark.candidates, trash=True, now_ms=OLD, roots=(
        f"file://{lair.media}",
    ))  # fmt: skip
    trash = lair.service / "trash" / begun.sweep_id
    outside = lair.service / "trash_outside" / begun.sweep_id / "file"
    # What an earlier sweep took, and what a stranger wants to have made elsewhere.
    for path in (trash / lair.kept.removeprefix(".hoodie/blobs/"), Path(f"{outside}{lair.victim}/new.txt")):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"from the trash")


def _mark(lair: Lair) -> None:
    publish_mark(replace(lair.unneeded(), mark_id=write_id(OLD, 3)))


def _erasure(lair: Lair) -> None:
    record = ErasureRecord.new(lair.uri, KEYS, OLD)
    publish_record(open_storage(lair.uri, LOCAL), replace(record, containers=(lair.kept,), suspects=(lair.orphan,)))


def _erased_keys(lair: Lair) -> None:
    add_erased(lair.uri, KEYS)


def _maintenance(lair: Lair) -> None:
    figures = Figures((ColumnFigures("img", 1, 2, 3, 4, 5, 6),), 1, 2, (IndexFigures("i", 1, 1, 9, 9, 1.5, 0.9, 2.0),))
    add_run(lair.uri, Run(OLD, (StepOutcome("clean_blobs", "done", "well", 1.5),), figures))


def _references(lair: Lair) -> None:
    kept = KeptReferences(lair.uri)
    find_unneeded(lair.uri, grace_ms=DAY, reader=kept)
    kept.save()


def _index_of_containers(lair: Lair) -> None:
    container_index(lair.uri, KeptReferences(lair.uri), LOCAL)


def _ended(lair: Lair) -> None:
    upload = uploads.open_upload(lair.uri, {"img": BlobSettings()}, lease_ms=1)
    uploads.abort(lair.uri, upload.write_id)
    kept = KeptUploads(lair.uri)
    kept(lair.uri, LOCAL)
    kept.save()


@dataclass(frozen=True)
class Kind:
    """A kind of side file: what makes one, and where."""

    make: Callable[[Lair], None]
    place: str


BLOB_KINDS: Mapping[str, Kind] = {
    "upload": Kind(_upload, ".hoodie/blob_service/v1/uploads"),
    "lease": Kind(_lease, ".hoodie/blob_service/v1/leases"),
    "registered-table": Kind(_registered, ".hoodie/blob_service/v1/registry"),
    "compaction": Kind(_compaction, ".hoodie/blob_service/v1/compactions"),
    "clustering": Kind(_clustering, ".hoodie/blob_service/v1/clusterings"),
    "sweep": Kind(_sweep, ".hoodie/blob_service/v1/sweeps"),
    "mark": Kind(_mark, ".hoodie/blob_service/v1/marks"),
    "erasure": Kind(_erasure, ".hoodie/blob_service/v1/erasures"),
    "erased-keys": Kind(_erased_keys, ERASED_KEYS),
    "maintenance": Kind(_maintenance, ".hoodie/blob_service/v1/maintenance"),
    "blob-references": Kind(_references, ".hoodie/blob_refs/v1"),
    "blob-index": Kind(_index_of_containers, ".hoodie/blob_refs/v1/index"),
    "ended-uploads": Kind(_ended, ".hoodie/blob_refs/v1/uploads"),
}


def newest_of(folder: Path, kind: str) -> Path:
    """The newest side file of a kind below a folder."""
    head = f"HUDI-VECTOR {kind} ".encode()
    found = [path for path in folder.rglob("*") if is_side_file(path.name) and path.read_bytes().startswith(head)]
    return max(found, key=lambda path: path.name)


def body_of(path: Path) -> dict[str, Any]:
    """The body of a side file."""
    body: dict[str, Any] = json.loads(path.read_bytes().partition(b"\n")[2])
    return body


def version_of(path: Path) -> int:
    """The version of a side file."""
    return int(path.read_bytes().split(b" ", 3)[2])


def write_body(path: Path, kind: str, body: Json) -> None:
    """Put another body into a side file, sealed as its writer would; what JSON cannot hold goes in as it is."""
    if isinstance(body, bytes):
        head = f"HUDI-VECTOR {kind} {version_of(path)} {hashlib.sha256(body).hexdigest()}\n"
        path.write_bytes(head.encode() + body)
        return
    text = json.dumps(body).encode()  # as ASCII, so that half a surrogate pair can be written too
    head = f"HUDI-VECTOR {kind} {version_of(path)} {hashlib.sha256(text).hexdigest()}\n"
    path.write_bytes(head.encode() + text)


def places_in(body: Json, at: Place = ()) -> Iterator[Place]:
    """Where every value of a body stands, those that hold others too."""
    if at:
        yield at
    if isinstance(body, dict):
        for key in sorted(body):
            yield from places_in(body[key], (*at, key))
    elif isinstance(body, list):
        for number, value in enumerate(body):
            yield from places_in(value, (*at, number))


def changed(body: Json, at: Place, value: Any, *, drop: bool = False) -> Json:
    """A body with another value at a place, or without it."""
    made = copy.deepcopy(body)
    inner = made
    for step in at[:-1]:
        inner = inner[step]
    if drop:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return made


def hostile_values(lair: Lair) -> list[Any]:
    """What a stranger would write in the place of any value."""
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    return [
        "", ".", "..", "../..", "../../../../../victim", "../../../../../../victim/deep", "/", str(lair.victim),
        f"file://{lair.victim}", f"file:{lair.victim}", f"file://{lair.root}", f"../{write_id(OLD, 9)}",
        f"file://{lair.victim}/deep/ledger.txt", ".hoodie/blobs/../../../victim/deep/ledger.txt",
        f".hoodie/blobs/../../../victim/img/{write_id(OLD, 9)}/{write_id(OLD, 9)}-00000-0-0.blob",
        "s3://other-bucket/app", "nowhere://x/y", "local:///etc/passwd", "hdfs:", "\0", "a\0b", "../\0", "\ud800",
        "x" * 5000, "%2e%2e%2f", "..\\..", write_id(OLD, 9), f"{write_id(OLD, 9)}/..", "committed", "running", "left",
        0, 1, -1, 7, 1 << 31, (1 << 63) - 1, 1 << 63, -(1 << 63) - 1, 10**30, -1e300, 0.5, float("nan"), float("inf"),
        True, False, None, [], {}, [""], [None], ["..", "/"], {"..": ".."}, [[]], [{}], deep,
    ]  # fmt: skip


RAW_BODIES: Sequence[bytes] = (
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"{}",
    b"7",
    b'{"a": 1e999999}',
    b"[" * 200_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b'{"made_ms": ' + b"9" * 10_000 + b"}",
    b"\xff\xfe",
    b'{"a": 1',
)
"""Whole bodies that a stranger may write, checksums and all."""


def side_tables_of(body: Json) -> list[Place]:
    """Where a body names side tables."""
    found = [at for at in [(), *places_in(body)] if _is_table(_at(body, at))]
    return [at for at in found if at]


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"name", "bytes", "sha256"}


def _at(body: Json, at: Place) -> Any:
    for step in at:
        body = body[step]
    return body


def change_table(path: Path, kind: str, at: Place, column: int, value: Any, way: str) -> None:
    """Change a column of a side table, and what its manifest says of it."""
    body = body_of(path)
    stated = _at(body, at)
    file = path.parent / stated["name"]
    table = pq.read_table(file)
    sink = io.BytesIO()
    pq.write_table(_with_column(table, column % table.num_columns, value, way), sink)
    file.write_bytes(sink.getvalue())
    size, digest = len(sink.getvalue()), hashlib.sha256(sink.getvalue()).hexdigest()
    write_body(path, kind, changed(body, at, stated | {"bytes": size, "sha256": digest}))


def _with_column(table: pa.Table, column: int, value: Any, way: str) -> pa.Table:
    field, rows = table.schema.field(column), table.num_rows
    if way == "drop":
        return table.remove_column(column)
    if way == "more":
        return table.append_column("stranger", pa.array([1] * rows))
    if way == "twice":
        return pa.concat_tables([table, table])
    if way == "null":
        return table.set_column(column, field.name, pa.nulls(rows, field.type))
    if way == "other":
        return table.set_column(column, field.name, pa.array([[b"x"]] * rows))
    try:
        values = pa.array([value] * rows, field.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        values = pa.array([1.5] * rows)
    return table.set_column(column, field.name, values)


TABLE_CHANGES = ("drop", "more", "twice", "null", "other", "value")


def copy_of(template: Path, place: Path) -> None:
    """A fresh copy of a prepared folder at its place."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(template, place, symlinks=True)
