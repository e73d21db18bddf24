"""Where bytes of records are, through the life of a table, until nothing is left."""

from __future__ import annotations

import io
import json
import os
import struct
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import fastavro
import pytest
from support.blob_states import BlobTable, blob, block, inline, write_id
from support.indexed import segment_of, vectors

from hudi_vector.blobs.names import STAGING
from hudi_vector.blobs.registry import REGISTERED, enter
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTableError
from hudi_vector.index.files import segment_name
from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.kinds.segment import FileFingerprint
from hudi_vector.index.locations import in_directory
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, publish_manifest
from hudi_vector.index.packs.layout import pack_content
from hudi_vector.read.logs.keys import _DELETES
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.disk_cache import DiskCache
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.erasure.api import ErasureResult, look, wanted_keys
from hudi_vector.table_services.erasure.caches import cached_of, receipts_with
from hudi_vector.table_services.erasure.record import (
    COMPLETE,
    ERASURES,
    OPEN,
    find_open,
    publish_record,
    read_erasure,
)
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.kept import KeptReferences
from hudi_vector.table_services.trash.trash import TRASH, expire

DAY = 86_400_000
NOW = time.time_ns() // 1_000_000
OLD = NOW - 30 * DAY
STORAGE = open_storage("file:///", StorageOptions())


@pytest.fixture
def table(tmp_path: Path) -> BlobTable:
    return BlobTable(tmp_path.resolve() / "t", OLD)


def committed(table: BlobTable, blobs: dict[int, object], form: str = "base", group: str = "f1") -> Path:
    instant = table.instant()
    file = table.base(group, instant, blobs) if form == "base" else table.log(group, instant, blobs, form)
    table.complete(instant, "commit" if form == "base" else "deltacommit")
    return file


def asked(table: BlobTable, *keys: str, live: Collection[str] = ()) -> ErasureResult:
    return look(table.uri, keys or ("1",), lambda: live)


def held(result: ErasureResult) -> dict[str, str]:
    return {holder.path.rpartition("/")[2]: f"{holder.kind}: {holder.needs}" for holder in result.holders}


def swept(table: BlobTable) -> None:
    def mark():  # type: ignore[no-untyped-def]
        return find_unneeded(table.uri, grace_ms=DAY)

    sweep(mark(), mark, limits=SweepLimits(100))


def test_what_is_cut_off_may_be_of_any_record(table: BlobTable) -> None:
    instant = table.instant()
    log = table.log("f1", instant, {1: inline(b"x")})
    log.write_bytes(log.read_bytes()[:-1])
    assert "is cut off, so that it is unknown whose rows it holds" in asked(table).doubts[0]
    log.write_bytes(b"")
    assert asked(table).doubts == (), "its write never completed, and no byte of it is left"


def test_through_the_life_of_a_record(table: BlobTable) -> None:
    alone, shared, other = (table.container(write_id(OLD, number)) for number in range(3))
    base = committed(table, {1: blob(f"{table.uri}/{alone}"), 2: blob(f"{table.uri}/{shared}", 5)})
    committed(table, {3: blob(f"{table.uri}/{other}")}, group="f2")
    log = committed(table, {1: blob(f"{table.uri}/{shared}")}, "avro")

    found = asked(table, live={"1"})
    name = {path: path.rpartition("/")[2] for path in (alone, shared)}
    assert held(found) == {
        base.name: "base file: the rows to be deleted, and Hudi's compaction and clean after it",
        log.name: "log file: the rows to be deleted, and Hudi's compaction and clean after it",
        name[alone]: "container: the data files first, and clean_blobs after them",
        name[shared]: "container: the data files first, and clean_blobs after them",
    }
    assert not found.is_well
    # Deleted, but not yet compacted.
    assert held(asked(table))[log.name] == "log file: Hudi's compaction of its file group, and clean after it"
    committed(table, {2: blob(f"{table.uri}/{shared}", 5)})
    assert {held(asked(table))[file.name].partition(": ")[2][:12] for file in (base, log)} == {"Hudi's clean"}
    table.savepoint(base.stem[-17:], [base])
    assert held(asked(table))[base.name].startswith(f"base file: savepoint {base.stem[-17:]} to be deleted")

    base.unlink()
    log.unlink()
    found = asked(table)
    assert held(found) == {
        name[alone]: "container: clean_blobs",
        name[shared]: "container: compact_blobs with live_threshold=100, since other rows refer to it, "
        "then Hudi's clean, then clean_blobs",
    }
    committed(table, {2: inline(b"moved")})
    for file in sorted(table.path.glob("f1*"))[:-1]:
        file.unlink()
    swept(table)
    assert {holder.kind for holder in asked(table).holders} == {"trash"}
    assert find_open(STORAGE, table.uri, ["1"]) is not None
    expire(table.uri, window_ms=0, now_ms=NOW + DAY)
    done = asked(table)
    assert (done.holders, done.doubts, done.is_well, done.erasure_id) == ([], (), True, found.erasure_id)
    record = read_erasure(STORAGE, table.uri, done.erasure_id)
    assert record is not None
    assert (record.state, record.containers, len(record.identity)) == (COMPLETE, (alone, shared), 32)
    assert record.completed_ms >= record.opened_ms > NOW - DAY
    assert (record.is_of(["1"]), record.is_of(["1", "2"])) == (True, False)
    content = b"".join(file.read_bytes() for file in (table.path / ERASURES).rglob("*") if file.is_file())
    assert b'"keys": 1' in content
    assert asked(table, "3").erasure_id != done.erasure_id


@pytest.mark.parametrize("others", [None, 40])
def test_blobs_that_moved_between_two_looks(table: BlobTable, others: int | None) -> None:
    before = table.container(write_id(OLD, 1))
    base = committed(table, {1: blob(f"{table.uri}/{before}", 0, 100)})
    assert len(asked(table, live={"1"}).holders) == 2
    # An upsert or a compaction wrote them anew, beside those of another row or alone; then the row went.
    table.clock_ms = time.time_ns() // 1_000_000 + 60_000
    after = table.container(write_id(NOW, 2))
    base.unlink()
    rest = committed(table, {2: None if others is None else blob(f"{table.uri}/{after}", 0, others)})
    (table.path / before).unlink()
    found = asked(table)
    assert list(held(found)) == [after.rpartition("/")[2]], "no data file tells that it holds bytes of the row"
    assert not found.is_well
    # What came after the rows had gone cannot hold them.
    table.clock_ms += 3_600_000
    newer = table.container(write_id(NOW, 3))
    committed(table, {4: blob(f"{table.uri}/{newer}", 0, 1)}, group="f2")
    rest.unlink()
    committed(table, {2: None})
    (table.path / after).unlink()
    assert asked(table).is_well


def test_bytes_that_others_have_too_are_theirs(table: BlobTable) -> None:
    shared = table.container(write_id(OLD, 1))
    both = committed(table, {1: blob(f"{table.uri}/{shared}", 0, 100), 2: blob(f"{table.uri}/{shared}", 0, 100)})
    assert len(asked(table).holders) == 2
    both.unlink()
    committed(table, {2: blob(f"{table.uri}/{shared}", 0, 100)})
    assert asked(table).is_well, "an equal blob that was stored once"


@pytest.mark.parametrize("form", ["base", "avro", "parquet"])
def test_inline_bytes_and_files_of_others(table: BlobTable, form: str, tmp_path: Path) -> None:
    if form != "base":
        committed(table, {9: None})
    file = committed(table, {1: inline(b"bytes"), 2: blob(f"{tmp_path}/cat.png", managed=False), 11: None}, form)
    assert list(held(asked(table))) == [file.name]
    found = asked(table, "2")
    assert [(holder.path, holder.kind) for holder in found.external] == [(f"file://{tmp_path}/cat.png", "external")]
    assert list(held(found)) == [file.name]
    assert {row["kind"] for row in found.rows()} == {"external", "base file" if form == "base" else "log file"}
    assert asked(table, "111").is_well, "a key that no row has ever had"
    assert [line[:21] for line in found.lines()] == ["1 file holds bytes of", f"record: file://{table.path}"[:21]]


def test_what_nobody_refers_to_at_first_may_be_anybodys(table: BlobTable) -> None:
    loose = table.container(write_id(OLD, 1))
    committed(table, {2: None})
    assert held(asked(table)) == {
        loose.rpartition("/")[2]: "container: clean_blobs: nothing refers to it, so it is unknown whose bytes it holds"
    }
    # It was of a write under way: now it is known to be somebody else's.
    later = committed(table, {2: blob(f"{table.uri}/{loose}", 0, 40), 3: blob(f"{table.uri}/{loose}", 60, 40)})
    assert list(held(asked(table)).values()) == [
        "container: compact_blobs with live_threshold=100, since it is unknown whose bytes its dead parts are, "
        "then Hudi's clean, then clean_blobs"
    ]
    later.unlink()
    later = committed(table, {2: blob(f"{table.uri}/{loose}", 0, 60), 3: blob(f"{table.uri}/{loose}", 60, 40)})
    assert asked(table).is_well, "all of its bytes are of others"
    later.unlink()
    swept(table)
    trashed = asked(table)
    assert [holder.kind for holder in trashed.holders] == ["trash"]
    assert trashed.holders[0].path.startswith(TRASH)


def test_a_doubt_leaves_it_open(table: BlobTable) -> None:
    file = committed(table, {1: inline(b"x")})
    damaged = table.path / table.file("f9_0-1-2_20260101000000000.parquet", b"PAR1")
    assert len(asked(table).doubts) == 2, "its rows and its references"
    file.unlink()
    found = asked(table)
    assert (found.holders, found.is_well) == ([], False)
    assert next(found.lines()).startswith("not known: ")
    record = read_erasure(STORAGE, table.uri, found.erasure_id)
    assert record is not None
    assert record.state == OPEN
    damaged.unlink()
    assert asked(table).is_well


def test_changed_rows_bear_no_key(table: BlobTable) -> None:
    committed(table, {2: None})
    changes = table.changes("f1", table.instant(), {1: inline(b"x")})
    for key in ("1", "7"):
        found = asked(table, key)
        assert not found.is_well
        assert [doubt.partition(": ")[2] for doubt in found.doubts] == [
            "it holds changes of rows, which have no record key; Hudi's clean removes it"
        ]
    changes.unlink()
    assert asked(table, "7").is_well


def test_a_pending_file_holds_too(table: BlobTable) -> None:
    committed(table, {2: None})
    instant = table.instant()
    table.begin(instant)
    table.log("f1", instant, {1: inline(b"x")})
    assert [holder.needs for holder in asked(table).holders] == [f"instant {instant} to complete or to be rolled back"]


def test_keys_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="there are no keys to look for"):
        wanted_keys([])
    with pytest.raises(InvalidTypeError, match=r"keys is a text or a list of texts, not \[17\]"):
        wanted_keys([17])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match=r"^the key 'a\\ud800' is not UTF-8, as every record key is; .+$"):
        wanted_keys(["a", "a\ud800"])
    assert wanted_keys(["a", "b\0"]) == ["a", "b\0"]
    assert wanted_keys("a") == ["a"]
    bare = BlobTable(tmp_path, OLD, properties={"hoodie.populate.meta.fields": "false"})
    with pytest.raises(UnsupportedTableError, match="keeps no _hoodie_record_key"):
        asked(bare)


def test_a_table_that_was_marked_before_is_read_like_one_that_was_not(table: BlobTable) -> None:
    alone, shared = (table.container(write_id(OLD, number)) for number in range(2))

    def settled(*files: Path) -> None:
        for file in files:
            os.utime(file, (1_700_000_000, 1_700_000_000))
        kept = KeptReferences(table.uri)
        find_unneeded(table.uri, grace_ms=DAY, reader=kept)
        assert kept.save() == len(files)

    both = committed(table, {1: blob(f"{table.uri}/{alone}"), 2: blob(f"{table.uri}/{shared}", 5)})
    settled(both, committed(table, {1: blob(f"{table.uri}/{shared}")}, "avro", "f2"))
    for live in ({"1"}, set()):
        kept = KeptReferences(table.uri)
        found = look(table.uri, ["1"], lambda live=live: live, kept=kept)
        assert kept.opened == 0, "nothing but what was kept was read"
        assert (found.holders, found.doubts) == (asked(table, live=live).holders, ())
        assert [holder.kind for holder in found.holders].count("container") == 2
    # The ranges of what was kept tell that a part of the container is nobody's.
    for file in table.path.glob("*f*_*"):
        file.unlink()
    settled(committed(table, {2: blob(f"{table.uri}/{shared}", 5, 1)}, group="f3"))
    found = look(table.uri, ["1"], tuple, kept=KeptReferences(table.uri))
    assert "compact_blobs with live_threshold=100" in held(found)[shared.rpartition("/")[2]]
    assert found.holders == asked(table).holders


def test_the_newest_rows_are_asked_for_only_where_a_file_holds_keys(table: BlobTable) -> None:
    """They take a job of Spark, which most looks of an erasure need not wait for."""
    asks: list[str] = []

    def live() -> list[str]:
        asks.append("live")
        return ["1"]

    committed(table, {2: None})
    assert (look(table.uri, ["1"], live).live, asks) == (0, [])
    file = committed(table, {1: None}, "avro")
    assert (look(table.uri, ["1"], live).live, asks) == (1, ["live"])
    file.write_bytes(file.read_bytes()[:-9])
    assert (look(table.uri, ["1"], live).live, asks) == (1, ["live"] * 2), "it may hold any key"


def test_what_killed_processes_left_may_hold_anybodys_rows(table: BlobTable) -> None:
    committed(table, {2: None})
    write = write_id(OLD, 1)
    staged = table.file(f"{STAGING}/{write}/part-0.parquet", b"rows in plain")
    hidden = table.file(f".hoodie/blob_service/v1/uploads/x/.00000000-a.{'0' * 32}.tmp", b"half")
    unfinished = table.file(f".hoodie/blobs/img/{write}/.tmpUasfaz", b"blobs")
    found = asked(table)
    assert {(holder.path, holder.bytes, holder.kind) for holder in found.holders} == {
        (STAGING + f"/{write}", 13, "leftover"),
        (hidden, 4, "leftover"),
        (unfinished, 5, "container"),
    }
    assert not found.is_well
    # A write that began when the rows were gone for long cannot have staged them.
    later = write_id(NOW, 2)
    record = find_open(STORAGE, table.uri, ["1"])
    assert record is not None
    publish_record(STORAGE, replace(record, rows_ms=0))
    table.file(f"{STAGING}/{later}/part-0.parquet", b"other rows")
    for path in (staged, hidden, unfinished):
        (table.path / path).unlink()
    assert asked(table).is_well


def test_what_was_not_looked_at_is_named(table: BlobTable) -> None:
    # Of what died in it, nothing is known: it may be what a row of the key had before.
    partly_dead, whole = (table.container(write_id(OLD, number), size=size) for number, size in enumerate((100, 5)))
    committed(table, {2: blob(partly_dead), 3: blob(whole)})
    stranger = table.file(".hoodie/blobs/cat.png", b"x")
    wanted = [
        ".hoodie",
        ".hoodie/blob_service/v1/registry",
        stranger,
        partly_dead,
        ".hoodie/metadata",
        f"{STAGING}/mine/x.parquet",
        ".hoodie/timeline",
        f"{TRASH}/mine.png",
        ".hoodie/vector_index/v1/emb/l2-ivf_flat/models",
    ]
    for path in (
        ".hoodie/metadata/files/x.hfile",
        ".hoodie/blob_service/v1/registry/x/y",
        f"{STAGING}/mine/x.parquet",
        f"{TRASH}/mine.png",
        ".hoodie/vector_index/v1/emb/l2-ivf_flat/models/9f.arrow",
    ):
        table.file(path, b"x")
    found = asked(table)
    assert found.is_well
    assert list(found.not_looked_at) == sorted(wanted)
    assert list(found.lines())[-1].endswith("which names 9 places that were not looked at")
    record = read_erasure(STORAGE, table.uri, found.erasure_id)
    assert record is not None
    assert (record.state, record.not_looked_at) == (COMPLETE, found.not_looked_at)


def test_packs_of_indexes_hold_vectors(table: BlobTable) -> None:
    """A pack holds what any of its segments does; one whose head cannot be read may hold anything."""
    first, second = committed(table, {1: None}), committed(table, {2: None}, group="f2")
    rows = vectors("normal", 20, 4, "float", 1)
    model = train_model(rows, kind="ivf_flat", metric="l2", element="float")
    segments = [replace(segment_of(model, rows), file=FileFingerprint(file.name, 1, 1, "")) for file in (first, second)]
    content, _ = pack_content(model, segments, [None, None])
    path = table.file(".hoodie/vector_index/v1/emb/l2-ivf_flat/packs/0123456789abcdef-9f.pack", content)
    found = asked(table)
    assert {holder.path: holder.needs for holder in found.holders if holder.kind == "segment"} == {
        path: "the data files first, and hv.index.compact after them"
    }
    assert asked(table, "3").is_well
    gone = {path: "hv.index.compact: its data file is gone, and it may have held the rows"}
    (table.path / path).write_bytes(content[:100])
    assert {holder.path: holder.needs for holder in asked(table, "3").holders} == gone
    (table.path / path).write_bytes(content)
    first.unlink()
    assert {holder.path: holder.needs for holder in asked(table, "3").holders} == gone


def test_segments_of_indexes_hold_vectors(table: BlobTable) -> None:
    """Segments are named by their data files, whatever kind the index is of."""
    first, second = committed(table, {1: None}), committed(table, {2: None}, group="f2")
    home = ".hoodie/vector_index/v1/emb/l2-ivf_flat/segments"
    segments = {
        file.name: table.file(f"{home}/{segment_name(FileFingerprint(file.name, 1, 1, ''), '9' * 16)}", b"vectors")
        for file in (first, second)
    }
    found = asked(table)
    assert {holder.path: holder.needs for holder in found.holders if holder.kind == "segment"} == {
        segments[first.name]: "the data files first, and hv.index.compact after them"
    }
    first.unlink()
    found = asked(table)
    assert {holder.path: holder.needs for holder in found.holders} == {
        segments[first.name]: "hv.index.compact: its data file is gone, and it may have held the rows"
    }
    (table.path / segments[first.name]).unlink()
    assert asked(table).is_well


def test_a_deletion_in_a_log_holds_the_key(table: BlobTable) -> None:
    committed(table, {2: None})
    held_in = io.BytesIO()
    row = {"recordKey": "1", "partitionPath": "", "orderingVal": None}
    fastavro.schemaless_writer(held_in, _DELETES, [row])
    content = struct.pack(">ii", 3, len(held_in.getvalue())) + held_in.getvalue()
    instant = table.instant()
    log = table.raw_log("f1", instant, block(1, {0: instant.encode()}, content))
    table.complete(instant)
    assert held(asked(table)) == {log.name: "log file: Hudi's compaction of its file group, and clean after it"}
    assert asked(table, "11").is_well


def test_the_metadata_table_holds_keys_and_statistics(table: BlobTable) -> None:
    base = committed(table, {1: None})
    table.file(".hoodie/metadata/files/x.hfile", b"names alone")
    index, statistics = (
        table.file(f".hoodie/metadata/{part}/x_0-1-2_0.hfile", b"x") for part in ("record_index", "column_stats")
    )
    parts = {index, statistics}
    assert {holder.path for holder in asked(table, live={"1"}).holders if holder.kind == "metadata table"} == parts
    base.unlink()
    assert {holder.path for holder in asked(table).holders} == parts
    for path in parts:
        (table.path / path).unlink()
    assert asked(table).is_well
    table.file(".hoodie/metadata/record_index/y_0-1-2_0.hfile", b"made again, when the rows had gone")
    assert asked(table).is_well


def test_segments_name_their_generation_wherever_they_are(table: BlobTable, tmp_path: Path) -> None:
    file = committed(table, {1: None})
    segment = segment_name(FileFingerprint(file.name, 1, 1, ""), "9" * 16)
    root = in_directory(str(tmp_path / "indexes"), table.uri, "").root
    folder = f"{root}/emb/l2-ivf_flat"
    place = Path(folder.removeprefix("file://")) / "segments" / segment
    place.parent.mkdir(parents=True)
    place.write_bytes(b"vectors")
    entry = ManifestEntry(FileFingerprint(file.name, 1, 1, "ab"), 1, segment, 1)
    manifest = IndexManifest("emb", "ivf_flat", "l2", 4, "float", "9" * 16, {}, (entry,))
    publish_manifest(STORAGE, folder, manifest)
    found = look(table.uri, ["1"], tuple, indexes=root)
    assert {holder.path: holder.needs for holder in found.holders if holder.kind == "segment"} == {
        f"file://{place}": "the data files first, and hv.index.compact after them (l2-ivf_flat, generation 1 names it)"
    }


def test_rows_of_registered_tables(table: BlobTable, tmp_path: Path) -> None:
    """Those that borrow blobs of the keys hold the erasure open; others are named, and are another table's."""
    other = BlobTable(tmp_path / "other", OLD)
    enter(table.uri, other.uri, REGISTERED)
    lent = table.container(write_id(OLD, 1))
    apart = committed(other, {1: None, 2: None})
    found = asked(table)
    assert [(each.path, each.kind) for each in found.external] == [(f"file://{apart}", "registered table")]
    assert [holder.kind for holder in found.holders] == ["container"]
    borrows = committed(other, {1: blob(f"{table.uri}/{lent}", 0, 100)}, group="f2")
    held_open = {holder.path: holder.needs for holder in asked(table).holders}
    assert held_open == dict.fromkeys(
        (f"file://{apart}", f"file://{borrows}"), "erase of that table: its rows of the keys refer to blobs of this one"
    )
    assert asked(table, "2").is_well


def test_a_container_that_only_another_table_refers_to(table: BlobTable, tmp_path: Path) -> None:
    """A compaction of the table itself would not free it: the sentence names the other table."""
    other = BlobTable(tmp_path / "other", OLD)
    enter(table.uri, other.uri, REGISTERED)
    shared = table.container(write_id(OLD, 1))
    mine = committed(table, {1: blob(f"{table.uri}/{shared}", 0, 40)})
    committed(other, {2: blob(f"{table.uri}/{shared}", 40, 20)})
    container = shared.rpartition("/")[2]
    assert held(asked(table, live={"1"}))[container] == "container: the data files first, and clean_blobs after them"
    mine.unlink()
    assert held(asked(table)) == {
        container: f"container: the rows of '{other.uri}' that refer to it to be deleted, Hudi's clean there, then clean_blobs"
    }
    committed(table, {3: blob(f"{table.uri}/{shared}", 60, 20)}, group="f3")
    assert held(asked(table))[container].startswith(
        "container: compact_blobs with live_threshold=100, since other rows"
    )


def test_the_cache_on_disk_keeps_what_was_read(table: BlobTable, tmp_path: Path) -> None:
    mine, other = committed(table, {1: None}), committed(table, {2: None}, group="f2")
    cache = DiskCache(str(tmp_path / "cache"), 1 << 20)
    gone = table.path / "gone.parquet"
    elsewhere = f"file://{table.path}2/{mine.name}"
    for source in (*(f" file://{file} 1 2" for file in (mine, other, gone)), f" {elsewhere} 1 2"):
        cache.put(source, "rows", [b"vectors"])
    (tmp_path / "cache/strange").write_bytes(b"no entry")
    found = list(cached_of(cache, STORAGE, table.uri, {mine.name}))
    assert {source for _, source, _ in found} == {f" file://{mine} 1 2", f" file://{gone} 1 2"}
    assert all(Path(path).stat().st_size == size for path, _, size in found)
    # Objects are named by bucket and key, and names that last have neither size nor time.
    cache.put("eu lake/t/gone.blob ", "0", [b"bytes"])
    assert [source for _, source, _ in cached_of(cache, STORAGE, "s3://lake/t", ())] == ["eu lake/t/gone.blob "]


def test_receipts_that_name_a_key(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.json").write_text(json.dumps({"rows": [{"key": 17}, {"key": "18"}]}))
    (tmp_path / "two.json").write_text(json.dumps({"19": [None, True]}))
    assert receipts_with(str(tmp_path), ["17", "1"]) == [(str(tmp_path / "a/one.json"), 38)]
    assert [path for path, _ in receipts_with(str(tmp_path), ["19"])] == [str(tmp_path / "two.json")]
    (tmp_path / "two.json").write_text("{")
    with pytest.raises(InvalidArgumentError, match=r"the receipt '.*two.json' cannot be read: Expecting"):
        receipts_with(str(tmp_path), ["1"])
    with pytest.raises(InvalidArgumentError, match="receipts = '/no/such' is no folder on this machine"):
        receipts_with("/no/such", ["1"])
