"""Receipts: what they hold, that a later replay gives the same bits, and what is refused with which sentence."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import servers
from support.archives import OF_RELEASES, unpack
from support.written_table import Row, WrittenTable, brute_force, rows_of

import hudi_vector as hv
from hudi_vector.command.main import main
from hudi_vector.errors import (
    InstantNotAvailableError,
    InvalidArgumentError,
    InvalidTypeError,
    TableNotFoundError,
    UnsupportedTableError,
)
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.index.locations import in_directory
from hudi_vector.options import Settings
from hudi_vector.query.receipts.made import without_secrets
from hudi_vector.query.receipts.receipt import Receipt
from hudi_vector.read.cache import process_cache
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

QUERY = [0.3, -0.2, 0.9, 0.1]
SECRET = "hunter2-AKIA"
METRICS = ("l2", "cosine", "dot_product")


@pytest.fixture
def rows() -> list[Row]:
    return [*rows_of(40, "a", 1), *rows_of(30, "b", 2, first=40)]


@pytest.fixture
def table(tmp_path: Path, rows: list[Row]) -> WrittenTable:
    written = WrittenTable(tmp_path / "t")
    written.commit({("a", "f1"): rows[:20], ("a", "f2"): rows[20:40], ("b", "f3"): rows[40:]})
    return written


def receipt_of(table: WrittenTable, query: Any = QUERY, k: int = 6, *, vector: bool = True, **asked: Any) -> Receipt:
    opening = {name: asked.pop(name) for name in ("options", "storage_options", "as_of") if name in asked}
    with hv.open(str(table.path), column="emb", **opening) as t:
        search = t.search_batch if np.ndim(query) == 2 else t.search
        return search(query, k, metric=asked.pop("metric", "l2"), **asked).report.receipt(vector=vector)


def rewritten(table: WrittenTable, rows: list[Row]) -> None:
    """Two later commits: every row of two file groups has another vector, and a partition has lost its rows."""
    moved = [replace(row, emb=tuple(-x for x in row.emb or ())) for row in rows[:40]]
    table.commit({("a", "f1"): moved[:20], ("a", "f2"): moved[20:]})
    table.commit({("b", "f3"): rows[69:]})
    process_cache().clear()


@pytest.mark.parametrize("metric", METRICS)
def test_a_receipt_holds_what_a_comparison_of_all_rows_finds(table: WrittenTable, rows: list[Row], metric: str) -> None:
    found = receipt_of(table, metric=metric).rows()
    wanted = brute_force(rows, QUERY, 6, metric)
    assert [(row["key"], row["partition"]) for row in found] == [(key, group) for _, key, group in wanted]
    np.testing.assert_allclose([row["distance"] for row in found], [far for far, _, _ in wanted], rtol=1e-12)
    assert [(row["query"], row["rank"]) for row in found] == [(0, rank) for rank in range(1, 7)]
    by_key = {row.key: row for row in rows}
    for row in found:
        group, name = row["file"].split("/")
        first = {"f1": 0, "f2": 20, "f3": 40}[name[:2]]
        assert rows[first + row["row"]] == by_key[row["key"]]
        assert by_key[row["key"]].group == group


def test_the_document_says_what_was_asked_and_read(table: WrittenTable) -> None:
    document = receipt_of(table, filter="price < 80", columns=["id"], max_distance=1.5).document()
    assert document["version"] == 1
    assert document["package"] == hv.__version__
    assert document["table"] == f"file://{table.path}"
    assert document["search"] == {
        "column": "emb",
        "metric": "l2",
        "k": 6,
        "max_distance": (1.5).hex(),
        "filter": "price < 80",
        "zone": "UTC",
        "columns": ["id"],
        "groups": None,
    }
    assert document["access"] == {"mode": "exact", "execution": "local", "slices": {"parquet": 3}, "index": None}
    assert document["snapshot"]["instant"] == "20260101000001000"
    assert document["snapshot"]["files"]["count"] == 3
    assert document["settings"] == {}
    raw = np.array(QUERY, "<f8").tobytes()
    assert document["queries"]["sha256"] == hashlib.sha256(raw).hexdigest()
    body = {name: value for name, value in document.items() if name != "sha256"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert document["sha256"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"filter": "price < 80 AND grp = 'a'"},
        {"max_distance": 1.25, "k": 50},
        {"metric": "cosine", "columns": ["name"]},
        {"query": [QUERY, QUERY[::-1]]},
        {"filter": "price < 0"},
        {"group_by": "grp", "per_group": 3, "k": 2},
        {"group_by": ["price"], "group_nulls": "drop", "filter": "id > 3"},
    ],
)
def test_a_replay_after_later_writes_gives_the_same_bits(
    table: WrittenTable, rows: list[Row], asked: dict[str, Any]
) -> None:
    receipt = receipt_of(table, **asked)
    rewritten(table, rows)
    again = hv.replay(None, receipt.to_json())
    assert again.same
    assert (again.differences, again.why) == ((), "")
    assert again.hits.column("_distance").to_pylist() == [row["distance"] for row in receipt.rows()]
    assert again.hits.report.receipt() == receipt
    with hv.open(str(table.path), column="emb") as t:  # now the answer is another one
        asked = {"query": QUERY, "k": 6, "metric": "l2", **asked}
        run = t.search_batch if np.ndim(asked["query"]) == 2 else t.search
        now = run(asked.pop("query"), asked.pop("k"), **asked)
    assert now.report.receipt().rows() != receipt.rows() or not receipt.rows()


def test_rows_of_a_batch_have_the_number_of_their_query(table: WrittenTable, rows: list[Row]) -> None:
    receipt = receipt_of(table, [QUERY, QUERY[::-1]], 3)
    assert [row["query"] for row in receipt.rows()] == [0, 0, 0, 1, 1, 1]
    for number, query in enumerate([QUERY, QUERY[::-1]]):
        keys = [row["key"] for row in receipt.rows() if row["query"] == number]
        assert keys == [key for _, key, _ in brute_force(rows, query, 3)]
    assert hv.replay(None, receipt).hits.column_names[0] == "_hudi_query_index"


def test_a_search_of_the_past_is_replayed_as_of_that_instant(table: WrittenTable, rows: list[Row]) -> None:
    rewritten(table, rows)
    receipt = receipt_of(table, as_of="20260101000001000")
    assert [row["key"] for row in receipt.rows()] == [key for _, key, _ in brute_force(rows, QUERY, 6)]
    assert receipt.content.snapshot.as_of == "20260101000001000"
    table.commit({("a", "f9"): rows[:3]})
    assert hv.replay(None, receipt).same


def test_what_was_pending_then_is_not_seen_later(table: WrittenTable, rows: list[Row]) -> None:
    """A commit was requested before another one, and completed after the search."""
    slow = table.next_instant()
    nearest = [replace(rows[0], id=900, emb=tuple(QUERY))]
    table.write_base("a", "f7", slow, nearest)
    table.begin(slow)
    table.commit({("b", "f8"): [replace(rows[1], id=901)]})
    receipt = receipt_of(table)
    assert receipt.content.snapshot.pending == (slow,)
    table.complete(slow)
    assert receipt_of(table).rows()[0]["key"] == "900"
    assert hv.replay(None, receipt).same


def test_a_timestamp_is_replayed_by_what_had_completed(table: WrittenTable, rows: list[Row]) -> None:
    slow = table.next_instant()
    table.write_base("a", "f7", slow, [replace(rows[0], id=900, emb=tuple(QUERY))])
    table.begin(slow)
    table.commit({("b", "f8"): [replace(rows[1], id=901)]})
    table.complete(slow)
    then = str(table.clock - 1)  # one thousandth of a second before
    moment = f"{then[:4]}-{then[4:6]}-{then[6:8]} {then[8:10]}:{then[10:12]}:{then[12:14]}.{then[14:]}"
    receipt = receipt_of(table, as_of=moment)
    assert receipt.rows() != receipt_of(table).rows()
    assert receipt.content.snapshot.as_of is None
    assert hv.replay(None, receipt).same


@pytest.mark.parametrize("archive", OF_RELEASES, ids=lambda path: path.name)
def test_tables_of_every_release_are_replayed(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    with hv.open(tmp_path / "table", column="emb") as t:
        report = t.search([1.0] * 4, 3, metric="l2").report
    receipt = report.receipt()
    assert receipt.rows()
    assert hv.replay(None, receipt).hits.report.receipt() == receipt


def test_without_record_keys_places_identify_rows(tmp_path: Path, rows: list[Row]) -> None:
    table = WrittenTable(tmp_path / "plain", has_meta_fields=False, partitioned=False)
    table.commit({("a", "f1"): rows[:40]})
    receipt = receipt_of(table)
    assert {row["key"] for row in receipt.rows()} == {None}
    assert [rows[row["row"]].key for row in receipt.rows()] == [key for _, key, _ in brute_force(rows[:40], QUERY, 6)]
    assert hv.replay(None, receipt).same


def test_a_table_that_moved_is_named(table: WrittenTable, tmp_path: Path) -> None:
    receipt = receipt_of(table)
    shutil.move(table.path, tmp_path / "elsewhere")
    with pytest.raises(TableNotFoundError, match="if the table has moved, give its path now as table=… or --table"):
        hv.replay(None, receipt)
    assert hv.replay(None, receipt, table=tmp_path / "elsewhere").same
    with pytest.raises(TableNotFoundError, match="there is no Hudi table at"):
        hv.replay(None, receipt, table=tmp_path / "nowhere")


def test_the_file_that_a_clean_took_is_named(table: WrittenTable, rows: list[Row]) -> None:
    receipt = receipt_of(table)
    of_b = receipt_of(table, filter="grp = 'b'")
    written = receipt.content.snapshot.instant
    table.commit({("a", "f2"): rows[20:40]})
    clean = table.clean([("a", "f2", written)], earliest=table.commit({("a", "f1"): rows[:20]}))
    name = f"a/f2_0-1-2_{written}.parquet"
    with pytest.raises(InstantNotAvailableError) as raised:
        hv.replay(None, receipt)
    assert str(raised.value) == (
        f"the answer at instant {written} of 'file://{table.path}' cannot be given again: Hudi's clean of {clean} took "
        f"the file '{name}'"
    )
    # What a partition's search read is all there.
    assert hv.replay(None, of_b).same
    later = table.clean([("a", "f1", written)], earliest=table.next_instant())
    with pytest.raises(InstantNotAvailableError, match=rf"Hudi's clean of {later} took the file 'a/f1_.*' and 1 more$"):
        hv.replay(None, receipt)


def test_a_file_that_goes_without_a_clean_is_named_if_it_held_a_row(table: WrittenTable, rows: list[Row]) -> None:
    receipt = receipt_of(table)
    held = receipt.rows()[0]
    (table.path / held["file"]).unlink()
    table.commit({("b", "f9"): rows[:1]})  # a listing that is not the one kept in memory
    with pytest.raises(InstantNotAvailableError, match=f"the file '{held['file']}', which held a row of it, is gone"):
        hv.replay(None, receipt)


def test_a_row_that_was_changed_in_place_differs(table: WrittenTable, rows: list[Row]) -> None:
    """A file of the same name and size with another vector and another key, which Hudi never writes."""
    receipt = receipt_of(table, k=3)
    nearest = receipt.rows()[0]
    group, file_id = nearest["file"].split("/")[0], nearest["file"].split("/")[1][:2]
    first = {"f1": 0, "f2": 20, "f3": 40}[file_id]
    there = {"f1": rows[:20], "f2": rows[20:40], "f3": rows[40:]}[file_id]
    changed = list(there)
    changed[nearest["row"]] = replace(
        there[nearest["row"]], emb=tuple(x + 0.5 for x in there[nearest["row"]].emb or ())
    )
    size = (table.path / nearest["file"]).stat().st_size
    table.write_base(group, file_id, receipt.content.snapshot.instant, changed)
    assert (table.path / nearest["file"]).stat().st_size == size
    process_cache().clear()
    again = hv.replay(None, receipt)
    assert not again.same
    assert again.why == ""
    assert first + nearest["row"] == int(nearest["key"])
    first_difference = again.differences[0]
    assert (first_difference.key, first_difference.was_rank) == (nearest["key"], 1)
    assert first_difference.change in ("missing", "distance")
    assert first_difference.was_distance == nearest["distance"]
    assert again.rows()[0]["change"] == first_difference.change
    assert next(again.lines()).startswith(f"differs: {len(again.differences)} differences from 3 rows")


# Approximate searches


@pytest.fixture
def indexed(tmp_path: Path) -> WrittenTable:
    table = WrittenTable(tmp_path / "indexed", partitioned=False)
    table.commit({("a", "f1"): rows_of(300, "a", 3), ("a", "f2"): rows_of(300, "a", 4, first=300)})
    build(table)
    return table


def build(table: WrittenTable, retrain: bool = False) -> None:
    snapshot = NativeTable(Source(f"file://{table.path}", "t")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, table.element))
    create_index(snapshot, spec, Parameters(metric="l2", num_partitions=16), retrain=retrain)


def approximate(table: WrittenTable, **asked: Any) -> Receipt:
    return receipt_of(table, mode="approximate", nprobes=1, refine_factor=1, **asked)


def test_an_approximate_answer_is_the_same_by_its_generation(indexed: WrittenTable) -> None:
    receipt = approximate(indexed, options={"hoodie.vector.cache.max.bytes": "1g", "hoodie.vector.search.mode": "auto"})
    assert receipt.content.settings == {"hoodie.vector.cache.max.bytes": "1g"}
    exact = receipt_of(indexed)
    assert receipt.rows() != exact.rows(), "the search has to miss rows, or else this shows nothing"
    index = receipt.content.access.index
    assert index is not None
    assert (index.generation, index.nprobes, index.refine_factor) == (1, 1, 1)
    assert index.folder == ".hoodie/vector_index/v1/emb/l2-ivf_sq8"
    indexed.commit({("a", "f3"): rows_of(300, "a", 5, first=600)})
    build(indexed)  # generation 2, while 1 is still there
    again = hv.replay(None, receipt)
    assert (again.same, again.why) == (True, "")
    assert again.hits.plan.index is not None
    assert again.hits.plan.index.generation == 1


def test_a_measured_effort_is_the_same_by_its_receipt(indexed: WrittenTable) -> None:
    receipt = receipt_of(indexed, recall_target=0.8, k=7)
    index = receipt.content.access.index
    assert index is not None
    assert index.refine_factor % 1, "no whole number, or else this shows nothing"
    again = hv.replay(None, receipt.to_json())
    assert (again.same, again.why) == (True, "")
    assert again.hits.plan.index is not None
    assert again.hits.plan.index.refine_factor == index.refine_factor


def test_a_generation_that_was_replaced_is_said(indexed: WrittenTable) -> None:
    receipt = approximate(indexed)
    build(indexed, retrain=True)
    manifests = sorted((indexed.path / ".hoodie/vector_index/v1/emb/l2-ivf_sq8/manifests").iterdir())
    manifests[0].unlink()
    again = hv.replay(None, receipt)
    assert again.why == ("the answer may differ: generation 1 of the index l2-ivf_sq8 was replaced by generation 2")
    assert list(again.lines())[1] == again.why
    shutil.rmtree(indexed.path / ".hoodie/vector_index")
    again = hv.replay(None, receipt)
    assert again.why == (
        "the answer may differ: generation 1 of the index l2-ivf_sq8 is gone, so that every row was compared"
    )
    assert not again.same
    assert [row["distance"] for row in receipt_of(indexed).rows()] == again.hits.column("_distance").to_pylist()


def test_an_index_elsewhere_is_found_again(table: WrittenTable, tmp_path: Path) -> None:
    snapshot = NativeTable(Source(f"file://{table.path}", "t")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, table.element))
    home = in_directory(str(tmp_path / "indexes"), snapshot.source.uri, "emb")
    create_index(snapshot, spec, Parameters(metric="l2", num_partitions=4), home=home)
    receipt = approximate(table, options={"hoodie.vector.index.external.dir": str(tmp_path / "indexes")})
    index = receipt.content.access.index
    assert index is not None
    assert index.folder.startswith(f"file://{tmp_path}/indexes/")
    again = hv.replay(None, receipt)
    assert (again.same, again.why) == (True, "")


def test_an_exact_answer_by_an_index_needs_no_index_later(indexed: WrittenTable) -> None:
    receipt = receipt_of(indexed)
    assert receipt.content.access.mode == "exact"
    assert receipt.content.access.index is not None
    shutil.rmtree(indexed.path / ".hoodie/vector_index")
    again = hv.replay(None, receipt)
    assert (again.same, again.why) == (True, "")


# Refusals


def changed(receipt: Receipt, change: Callable[[dict[str, Any]], None], hashed: bool = False) -> dict[str, Any]:
    document = receipt.document()
    change(document)
    if hashed:
        body = {name: value for name, value in document.items() if name != "sha256"}
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        document["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return document


@pytest.mark.parametrize(
    ("change", "hashed", "sentence"),
    [
        (
            lambda d: d["search"].update(k=7),
            False,
            "the receipt was changed since it was made: the hash of its content",
        ),
        (lambda d: d["rows"].pop(), False, "the receipt was changed since it was made: the hash of its content"),
        (lambda d: d.pop("sha256"), False, "the receipt was changed since it was made: the hash of its content"),
        (lambda d: d.update(version=2), True, "the receipt has version 2, and this hudi-vector reads version 1"),
        (lambda d: d.update(version=True), True, "the receipt has version True, and this hudi-vector reads version 1"),
        (lambda d: d.pop("version"), True, "this is no receipt: it has no 'version' and 'rows'"),
        (lambda d: d["search"].update(k="x"), True, "the receipt is damaged, or somebody changed it: its k is"),
        (lambda d: d.pop("queries"), True, "the receipt is damaged, or somebody changed it: its ReceiptContent has no"),
        (lambda d: d.update(more=1), True, "the receipt is damaged, or somebody changed it: its ReceiptContent holds"),
        (lambda d: d["rows"][0].update(distance="far"), True, "the distance 'far' is no hexadecimal float"),
        (lambda d: d["rows"][0].update(distance=""), True, "the distance '' is no hexadecimal float"),
        (lambda d: d["search"].update(max_distance=""), True, "the distance '' is no hexadecimal float"),
        (
            lambda d: d["search"].update(groups={"columns": [], "per_group": 1, "drop_nulls": True}),
            True,
            "it groups rows by no column",
        ),
        (lambda d: d["search"].update(filter="id > 0", zone="a" * 300), True, "is no time zone known here"),
        (
            lambda d: d.update(settings={"hoodie.vector.cache.dir": "/x"}),
            True,
            "which no receipt does; give the original",
        ),
        (lambda d: d["search"].update(filter={1, 2}), False, "this is no receipt: it holds what JSON does not"),
        (lambda d: d["queries"].update(vectors="%"), True, "its vectors are not base64"),
        (lambda d: d["queries"].update(vectors="AAAA"), True, "its vectors have 3 bytes, not 32"),
    ],
)
def test_a_changed_receipt_is_refused(
    table: WrittenTable, change: Callable[[dict[str, Any]], None], hashed: bool, sentence: str
) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        hv.replay(None, changed(receipt_of(table), change, hashed))
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        ("/no/such/receipt.json", InvalidArgumentError, "the receipt '/no/such/receipt.json' cannot be read: No such"),
        ("{", InvalidArgumentError, "this is no receipt: it is not JSON"),
        ('{"version": NaN, "rows": []}', InvalidArgumentError, "this is no receipt: it is not JSON (NaN is no number)"),
        ('{"version": 1, "rows": 1e999}', InvalidArgumentError, "this is no receipt: it holds what JSON does not"),
        ("{}", InvalidArgumentError, "this is no receipt: it has no 'version' and 'rows'"),
        (7, InvalidTypeError, "a receipt is a file's path, JSON, or what report.receipt() returned, not int"),
    ],
)
def test_what_is_no_receipt_is_refused(value: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as raised:
        hv.replay(None, value)
    assert sentence in str(raised.value)


def test_a_vector_can_be_left_out_for_its_hash(table: WrittenTable) -> None:
    receipt = receipt_of(table, vector=False)
    assert receipt.content.queries.vectors is None
    assert hv.replay(None, receipt, QUERY).same
    assert hv.replay(None, receipt, np.array(QUERY)).same
    with pytest.raises(InvalidArgumentError, match="the receipt has the query vector's hash alone; give the vector"):
        hv.replay(None, receipt)
    with pytest.raises(InvalidArgumentError, match="the vector is not the one that was searched for: its hash is not"):
        hv.replay(None, receipt, QUERY[::-1])
    with pytest.raises(
        InvalidArgumentError, match="not the one that was searched for: the query vector has 3 elements"
    ):
        hv.replay(None, receipt, QUERY[:3])
    with pytest.raises(InvalidArgumentError, match="2 vectors were given, and the receipt is of 1"):
        hv.replay(None, receipt, [QUERY, QUERY])
    with pytest.raises(InvalidArgumentError, match="is not the one that was searched for"):
        hv.replay(None, receipt_of(table), QUERY[::-1])  # also where the receipt has the vector
    with hv.open(str(table.path), column="emb") as t, pytest.raises(InvalidTypeError, match="True or False, not list"):
        t.search(QUERY).report.receipt(vector=QUERY)


def test_searches_of_other_sources_have_no_receipt(table: WrittenTable) -> None:
    files = [str(path) for path in sorted(table.path.rglob("*.parquet"))]
    with hv.open(files=files, column="emb") as t, pytest.raises(UnsupportedTableError, match="names an instant"):
        t.search(QUERY, 3).report.receipt()


# What is kept, and what is not


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        (f"s3a://key:{SECRET}@lake/t", "s3a://lake/t"),
        (f"s3://{SECRET}@lake/t/u", "s3://lake/t/u"),
        (f"https://host/t?sig={SECRET}", "https://host/t"),
        (f"gs://lake/t#{SECRET}", "gs://lake/t"),
        ("abfss://container@account.dfs.core.windows.net/t", "abfss://container@account.dfs.core.windows.net/t"),
        (f"abfss://user:{SECRET}@account/t", "abfss://account/t"),
        ("file:///a@b/t?x", "file:///a@b/t?x"),
        ("hdfs://name:8020/t", "hdfs://name:8020/t"),
    ],
)
def test_a_path_loses_its_credentials(uri: str, kept: str) -> None:
    assert without_secrets(uri) == kept


def test_a_receipt_holds_no_secret(table: WrittenTable) -> None:
    storage = {
        "fs.s3a.secret.key": SECRET,
        "fs.azure.account.key": SECRET,
        "hadoop.security.credential.provider.path": SECRET,
    }
    with hv.open(
        str(table.path), column="emb", storage_options=storage, options={"hoodie.vector.cache.max.bytes": "1g"}
    ) as t:
        receipt = t.search(QUERY, 3).report.receipt()
        assert SECRET not in receipt.to_json() + repr(receipt) + repr(hv.replay(None, receipt))
        assert receipt.content.settings == {}
    with_user = replace(receipt, content=replace(receipt.content, table=f"s3a://k:{SECRET}@lake/t"))
    assert SECRET in with_user.to_json(), "the test has to find a secret where there is one"


def test_a_table_in_a_bucket_is_replayed_with_keys_that_no_receipt_holds(table: WrittenTable) -> None:
    with servers.lake() as (options, client):
        for file in filter(Path.is_file, table.path.rglob("*")):
            client.upload_file(str(file), "lake", f"t/{file.relative_to(table.path)}")
        settings = dict(options.values)
        with hv.open("s3a://lake/t", column="emb", storage_options=settings) as t:
            receipt = t.search(QUERY, 3, metric="l2").report.receipt()
        assert receipt.content.table == "s3://lake/t"
        assert not [value for value in settings.values() if value in receipt.to_json()]
        assert hv.replay(Settings(settings), receipt.to_json()).same
        with pytest.raises(InvalidArgumentError, match="is found by a session only"):
            hv.replay(None, receipt)


def test_reports_do_not_carry_their_answer_along(table: WrittenTable) -> None:
    with hv.open(str(table.path), column="emb", storage_options={"fs.s3a.secret.key": SECRET}) as t:
        report = t.search(QUERY, 3).report
    report.receipt()
    for other in (copy.copy(report), replace(report), pickle.loads(pickle.dumps(report))):
        with pytest.raises(InvalidArgumentError, match=r"the answer of this search of .* is not kept"):
            other.receipt()
    assert SECRET.encode() not in pickle.dumps(report)
    assert "_answered" not in report.rows()[0]


def test_the_last_reports_keep_eight_answers_of_some_size(table: WrittenTable) -> None:
    with hv.open(str(table.path), column="emb") as t:
        kept = [t.search(QUERY, 3).report for _ in range(10)]
        assert kept[0].receipt().rows()
        reports = hv.last_reports(10)
        assert [report._answered is not None for report in reports] == [False] * 2 + [True] * 8
        assert reports == kept
        with pytest.raises(InvalidArgumentError, match=r"by one of the last 8 of hv\.last_reports"):
            reports[0].receipt()
        many = t.search_batch(np.tile(QUERY, (60_000, 1)), 3)
        assert hv.last_reports()[0]._answered is None
        assert many.report._answered is not None


def test_a_receipt_of_groups_says_which(table: WrittenTable, rows: list[Row]) -> None:
    with hv.open(str(table.path), column="emb") as t:
        receipt = t.search(QUERY, 2, metric="l2", group_by="grp", per_group=2, group_nulls="drop").report.receipt()
    assert receipt.document()["search"]["groups"] == {"columns": ["grp"], "per_group": 2, "drop_nulls": True}
    assert receipt.content.search.filter is None
    nearest = [[key for _, key, _ in brute_force([r for r in rows if r.group == group], QUERY, 2)] for group in "ab"]
    found = [row["key"] for row in receipt.rows()]
    assert sorted(found) == sorted(key for keys in nearest for key in keys)
    assert found[0] == brute_force(rows, QUERY, 1)[0][1]
    assert hv.replay(None, receipt).same


# The command


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: Any) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


def test_the_command_compares(table: WrittenTable, rows: list[Row], tmp_path: Path, said: Any) -> None:
    file = tmp_path / "receipt.json"
    code, _, _ = said("search", table.path, "--query", QUERY, "-k", 4, "--metric", "l2", "--receipt", file)
    assert code == 0
    at = json.loads(file.read_text())["snapshot"]["instant"]
    rewritten(table, rows)
    assert said("replay", file) == (
        0,
        "",
        f"hudi-vector: same: 4 rows at instant {at}, with the same distances to the last bit\n",
    )
    document = changed(
        Receipt.of(hv.replay(None, file).receipt.content),
        lambda d: d["rows"][0].update(distance=(0.125).hex()),
        hashed=True,
    )
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    code, out, err = said("replay", other, "--format", "json")
    assert (code, json.loads(out)["change"], json.loads(out)["was_distance"]) == (1, "distance", 0.125)
    assert err.startswith("hudi-vector: differs: 1 difference from 4 rows")


def test_the_command_says_what_is_wrong(table: WrittenTable, rows: list[Row], tmp_path: Path, said: Any) -> None:
    file, vector = tmp_path / "receipt.json", tmp_path / "vector.json"
    receipt_of(table, vector=False).save(file)
    code, _, err = said("replay", file)
    assert (code, err.count("\n")) == (2, 1)
    assert "give the vector too, as vector=… or --query-file" in err
    vector.write_text(json.dumps(QUERY))
    assert said("replay", file, "--query-file", vector, "-q") == (0, "", "")
    at = receipt_of(table).content.snapshot.instant
    table.commit({("b", "f3"): rows[40:]})
    table.clean([("b", "f3", at)], earliest=table.next_instant())
    code, _, err = said("replay", file, "--query-file", vector)
    assert (code, err.count("\n")) == (3, 1)
    assert "took the file 'b/f3_" in err
    file.write_text("[]")
    code, _, err = said("replay", file)
    assert (code, err) == (2, "hudi-vector: this is no receipt: it is list, not a JSON object\n")
    with pytest.raises(InvalidArgumentError, match=f"the receipt '.*' would lie among .* of the table '{table.path}'"):
        receipt_of(table).save(table.path / "b" / "receipt.json")
    assert not (table.path / "b" / "receipt.json").exists()


def test_settings_open_the_storage(table: WrittenTable) -> None:
    assert hv.replay(Settings({"hoodie.vector.search.mode": "approximate"}), receipt_of(table)).same
