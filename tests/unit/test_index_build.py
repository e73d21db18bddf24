"""Indexes built and searched without Spark: killed builds, two builders, tampered files, what searches choose."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.written_table import WrittenTable, rows_of

import hudi_vector as hv
from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    MissingDependencyError,
    RefusedError,
    UnsupportedTableError,
)
from hudi_vector.index import load
from hudi_vector.index.build import Parameters, create_index, of_usual_kind, refresh_index
from hudi_vector.index.calibration.calibrate import calibrate
from hudi_vector.index.catalog import Index, drop_index, indexes_at
from hudi_vector.index.files import indexes_folder, load_model
from hudi_vector.index.kinds import kinds
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.locations import columns_at, in_table
from hudi_vector.index.manifest import publish_manifest
from hudi_vector.query.indexed import slices as indexed
from hudi_vector.read.cache import process_cache
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import open_storage
from hudi_vector.storage.side_files import publish
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.vector_index.compacting import _without_gone_files

QUERIES = np.random.default_rng(5).standard_normal((6, 4))


@pytest.fixture(autouse=True)
def _calibrated(request: pytest.FixtureRequest) -> None:
    recall = (test_a_table_opened_without_spark_uses_its_index, test_vectors_that_calibrate_were_not_trained_on)
    if request.function not in recall:
        request.getfixturevalue("briefly_calibrated")


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    written = WrittenTable(tmp_path / "t")
    rows = rows_of(300, "a", 1)
    written.commit({("a", "f1"): rows[:100], ("a", "f2"): rows[100:200], ("a", "f3"): rows[200:]})
    return written


def place(table: WrittenTable) -> tuple[Snapshot, ScanSpec]:
    snapshot = NativeTable(Source(f"file://{table.path}", "t")).snapshot()
    return snapshot, ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, table.element))


def built(table: WrittenTable, metric: str = "l2", **parameters: Any) -> Index:
    return create_index(*place(table), Parameters(metric=metric, **parameters))


def hits(table: WrittenTable, **asked: Any) -> list[Any]:
    # Vectors in memory would answer in place of the index.
    with hv.open(str(table.path), column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as t:
        found = [t.search(query, 7, metric="l2", columns=["id"], **asked) for query in QUERIES]
    return [(one.column("id").to_pylist(), one.column("_distance").to_pylist(), one.report.slices) for one in found]


def assert_exact(table: WrittenTable, slices: dict[str, int], **asked: Any) -> None:
    expected = hits(table, mode="exact", **asked)
    found = hits(table, **asked)
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    assert [one[2] for one in found] == [slices] * len(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_opened_without_spark_uses_its_index(table: WrittenTable, kind: str) -> None:
    index = built(table, kind=kind, recall_target=0.9)
    assert [one.manifest.kind for one in indexes_at(in_table(index.table_uri, "emb"), place(table)[1].options)] == [
        kind
    ]
    by = {"parquet": 3} if kind == "hnsw" else {"index": 3}  # walks through graphs prove nothing
    assert_exact(table, by, recall_target=1.0)
    assert_exact(table, by, recall_target=1.0, filter="price < 50")
    approximate = hits(table)  # the index's own target
    exact = hits(table, mode="exact")
    shared = [len(set(a[0]) & set(b[0])) / 7 for a, b in zip(approximate, exact, strict=True)]
    assert np.mean(shared) >= 0.85
    with hv.open(str(table.path), column="emb") as t:
        plan = t.search(QUERIES[0], 7, metric="l2").plan
        assert plan.index is not None
        assert not plan.index.certain
        assert f"index       {kind} for l2, " in plan.describe()
        many = t.search_batch(QUERIES, 7, metric="l2", columns=["id"], nprobes=2)
        single = [
            t.search(query, 7, metric="l2", columns=["id"], nprobes=2).column("id").to_pylist() for query in QUERIES
        ]
        assert many.column("id").to_pylist() == [number for one in single for number in one]


def test_a_killed_build_goes_on_where_it_was(table: WrittenTable) -> None:
    snapshot, spec = place(table)

    def killed(run: Any, items: Any) -> Any:
        for number, item in enumerate(items):
            if number == 2 and "segment" in getattr(run, "__name__", ""):
                raise KeyboardInterrupt
            yield run(item)

    with pytest.raises(KeyboardInterrupt):
        create_index(snapshot, spec, Parameters(metric="l2"), killed)
    assert_exact(table, {"parquet": 3})  # nothing was published
    segments = table.path / ".hoodie/vector_index/v1/emb/l2-ivf_sq8/segments"
    before = {file.name: file.stat().st_mtime_ns for file in segments.iterdir()}
    assert len(before) == 2
    built(table)
    after = {file.name: file.stat().st_mtime_ns for file in segments.iterdir()}
    assert len(after) == 3
    assert before.items() <= after.items()
    assert_exact(table, {"index": 3})


def test_of_two_builders_nothing_is_lost(table: WrittenTable) -> None:
    first = built(table)
    snapshot, spec = place(table)
    storage = open_storage(first.folder, spec.options)
    part = replace(first.manifest, entries=first.manifest.entries[:1])
    known = replace(first, manifest=part)  # as a builder saw it that began before the other ended
    publish_manifest(storage, first.folder, first.manifest)
    assert len(refresh_index(snapshot, spec, known).manifest.entries) == 3
    assert_exact(table, {"index": 3})


def with_another_build(table: WrittenTable) -> tuple[Callable[[Any, Any], Any], list[Index]]:
    """A way to go through files during which another job makes the index, once; and what it made."""
    made: list[Index] = []

    def interrupted(run: Any, items: Any) -> Any:
        if not made:
            made.append(built(table, num_partitions=3))
        return map(run, items)

    return interrupted, made


def test_a_refresh_does_not_undo_a_retraining(table: WrittenTable) -> None:
    old = built(table)
    table.commit({("b", "f4"): rows_of(40, "b", 3, first=900)})
    snapshot, spec = place(table)
    interrupted, retrained = with_another_build(table)
    found = refresh_index(snapshot, spec, old, interrupted)
    assert old.manifest.model_id != retrained[0].manifest.model_id == found.manifest.model_id
    assert found.manifest.generation == retrained[0].manifest.generation  # it lacks nothing
    (newest,) = indexes_at(in_table(old.table_uri, "emb"), spec.options)
    assert newest.manifest == found.manifest
    assert_exact(table, {"index": 4})


def test_a_refresh_gives_up_where_an_index_is_made_anew_again_and_again(table: WrittenTable) -> None:
    old = built(table)
    table.commit({("b", "f4"): rows_of(40, "b", 3, first=900)})
    snapshot, spec = place(table)
    partitions = iter(range(3, 100))

    def interrupted(run: Any, items: Any) -> Any:
        made = built(table, num_partitions=next(partitions))
        part = replace(made.manifest, entries=made.manifest.entries[:3])
        publish_manifest(open_storage(old.folder, spec.options), old.folder, part)
        return map(run, items)

    with pytest.raises(RefusedError, match="was made again 3 times while it was being refreshed"):
        refresh_index(snapshot, spec, old, interrupted)


def test_compaction_drops_nothing_that_was_published_meanwhile(table: WrittenTable) -> None:
    stale = built(table)
    _, spec = place(table)
    table.commit({("b", "f4"): rows_of(40, "b", 3, first=900)})
    newest = refresh_index(*place(table), built(table, num_partitions=3))
    storage = open_storage(stale.folder, spec.options)
    assert _without_gone_files(stale, storage, spec.options) == newest.manifest
    next(table.path.glob("a/f1*.parquet")).unlink()
    compacted = _without_gone_files(stale, storage, spec.options)
    assert compacted.model_id == newest.manifest.model_id != stale.manifest.model_id
    assert len(compacted.entries) == 3
    assert compacted.generation == newest.manifest.generation + 1


def test_of_two_builds_where_none_was_the_first_stays(table: WrittenTable) -> None:
    snapshot, spec = place(table)
    interrupted, theirs = with_another_build(table)
    found = create_index(snapshot, spec, Parameters(metric="l2"), interrupted, retrain=False)
    assert found.manifest == theirs[0].manifest
    again = create_index(snapshot, spec, Parameters(metric="l2"), interrupted)  # what is asked for anew is made anew
    assert again.manifest.model_id != found.manifest.model_id
    assert indexes_at(in_table(found.table_uri, "emb"), spec.options)[0].manifest == again.manifest


def test_new_files_are_scanned_until_they_are_indexed(table: WrittenTable) -> None:
    index = built(table)
    table.commit({("a", "f2"): rows_of(50, "a", 9, first=100), ("b", "f4"): rows_of(20, "b", 3, first=900)})
    assert_exact(table, {"index": 2, "parquet": 2})
    with hv.open(str(table.path), column="emb") as t:
        assert "no segment of the index yet" in t.search(QUERIES[0], metric="l2").plan.describe()
    refreshed = refresh_index(*place(table), index)
    assert len(refreshed.manifest.entries) == 5
    assert_exact(table, {"index": 4})
    assert refresh_index(*place(table), refreshed) is refreshed


def test_partitions_are_searched_in_the_view_of_the_whole_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = WrittenTable(tmp_path / "partitioned")
    parts = {name: rows_of(120, name, seed, first=seed * 1000) for seed, name in enumerate("abc")}
    table.commit({(name, f"f{name}{n}"): rows[n * 60 : n * 60 + 60] for name, rows in parts.items() for n in (0, 1)})
    built(table)
    with hv.open(str(table.path), column="emb") as t:
        exact = {
            text: [
                t.search(query, 9, metric="l2", columns=["id"], filter=text, mode="exact").table for query in QUERIES
            ]
            for text in ("grp = 'b'", "grp <> 'b' AND price > 20", "grp = 'c' AND price < 30")
        }
        assert t.search(QUERIES[0], 9, metric="l2", mode="approximate").report.slices == {"index": 6}
        for file in table.path.glob(".hoodie/vector_index/v1/emb/*/segments/*"):
            file.unlink()  # what is in memory is all there is
        with caplog.at_level(logging.WARNING, "hudi_vector.search"):
            for text, expected in exact.items():
                for query, wanted in zip(QUERIES, expected, strict=True):
                    found = t.search(query, 9, metric="l2", columns=["id"], filter=text)
                    assert found.table.equals(wanted)
                    assert found.report.slices == {"index": 4 if "<>" in text else 2}
                    assert found.report.slices_pruned == 6 - found.report.slices["index"]
        assert "scanned" not in caplog.text
        everywhere = t.search(QUERIES[0], 9, metric="l2", filter="price > 20", mode="exact", columns=["id"])
        assert t.search(QUERIES[0], 9, metric="l2", filter="price > 20", columns=["id"]).table.equals(everywhere.table)


def test_a_segment_answers_only_for_the_content_it_was_made_of(table: WrittenTable) -> None:
    index = built(table)
    file = place(table)[0].file_slices[0].base_file
    assert file is not None
    assert index.entry_of(file) is not None
    for changed in (replace(file, size=file.size + 1), replace(file, uri=file.uri + "x")):
        assert index.entry_of(changed) is None
    assert index.entry_of(replace(file, mtime_ns=1)) is not None, "Hudi writes no name twice; a copied table is as good"


@pytest.mark.parametrize("part", ["segments", "models"])
def test_damaged_files_of_an_index_cost_time_and_no_row(
    table: WrittenTable, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    index = built(table)
    file = next((table.path / ".hoodie/vector_index/v1/emb/l2-ivf_sq8" / part).iterdir())
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING, "hudi_vector.search"):
        assert_exact(table, {"index": 3})
    assert "cannot be read, its file is scanned" in caplog.text
    scanned = 1 if part == "segments" else 3
    assert f"{scanned} of 3 slices are scanned although the index" in caplog.text
    file.unlink()
    assert_exact(table, {"index": 3})
    drop_index(index.place, place(table)[1].options)
    assert_exact(table, {"parquet": 3})


def test_a_copied_table_uses_its_index_at_once(
    table: WrittenTable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With other modification times and below another root: Hudi writes no name twice, so name and size tell."""
    built(table)
    copy = replace(table, path=tmp_path / "copy")
    shutil.rmtree(copy.path)
    shutil.copytree(table.path, copy.path, copy_function=shutil.copyfile)
    with caplog.at_level(logging.WARNING, "hudi_vector"):
        assert_exact(copy, {"index": 3})
    assert not caplog.records


def test_an_index_that_came_later_is_found_without_a_commit(table: WrittenTable) -> None:
    asked = {"k": 3, "metric": "l2"}
    with (
        hv.open(str(table.path), column="emb", refresh_every=0) as often,
        hv.open(str(table.path), column="emb") as once,
    ):
        for t in (often, once):
            assert t.search(QUERIES[0], **asked).report.slices == {"parquet": 3}
        built(table)
        assert often.search(QUERIES[0], **asked).report.slices == {"index": 3}
        assert once.search(QUERIES[0], **asked).report.slices == {"parquet": 3}
        once.refresh()
        assert once.search(QUERIES[0], **asked).report.slices == {"index": 3}


def test_an_exact_search_looks_at_no_index(table: WrittenTable) -> None:
    index = built(table)
    body = {"manifest_version": 2}
    publish(
        open_storage(index.folder, place(table)[1].options), f"{index.folder}/manifests", "index-manifest", 2, 9, body
    )
    with hv.open(str(table.path), column="emb") as t:
        assert len(t.search(QUERIES[0], 3, metric="l2", mode="exact", columns=["id"])["id"]) == 3
        with pytest.raises(UnsupportedTableError, match="has version 2"):
            t.search(QUERIES[0], 3, metric="l2")


def test_codes_beyond_the_cache_are_looked_at_in_parts(table: WrittenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    index = built(table)
    sizes = [entry.bytes for entry in index.manifest.entries]
    conf = {"hoodie.vector.cache.max.bytes": str(2 * max(sizes) + 2)}
    views: list[int] = []
    real = indexed.load_view

    def counted(folder: str, model_id: str, entries: Any, *others: Any, **more: Any) -> Any:
        views.append(len(entries))
        return real(folder, model_id, entries, *others, **more)

    monkeypatch.setattr(indexed, "load_view", counted)
    with hv.open(str(table.path), column="emb", options=conf) as t:
        found = [t.search(query, 7, metric="l2", columns=["id"]).table for query in QUERIES]
        expected = [t.search(query, 7, metric="l2", columns=["id"], mode="exact").table for query in QUERIES]
    assert found == expected
    assert views[:3] == [1, 1, 1]


def test_threads_that_ask_at_once_read_an_index_once(table: WrittenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    index = built(table)
    made = []
    real = load.joined_view
    monkeypatch.setattr(load, "joined_view", lambda *arguments: made.append(1) or real(*arguments))
    arguments = (index.folder, index.manifest.model_id, index.manifest.entries, place(table)[1].options, True)
    process_cache().resize(1 << 26)
    with ThreadPoolExecutor(6) as threads:
        views = list(threads.map(lambda _: load.load_view(*arguments), range(12)))
    assert (len(made), len(set(map(id, views)))) == (1, 1)


def test_vectors_far_from_what_the_model_knows(table: WrittenTable) -> None:
    index = built(table)
    rows = [replace(row, emb=tuple(10 * x for x in row.emb or ())) for row in rows_of(80, "a", 4, first=2000)]
    table.commit({("a", "f9"): rows})
    refreshed = refresh_index(*place(table), index)
    assert sum(entry.clipped for entry in refreshed.manifest.entries) > 40
    assert_exact(table, {"index": 4})


def test_a_table_without_vectors(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path / "empty")
    table.commit({("a", "f1"): [replace(row, emb=None) for row in rows_of(5, "a", 1)]})
    index = built(table)
    assert index.manifest.calibration == ()
    assert_exact(table, {"index": 1})
    assert hits(table)[0][0] == []
    assert columns_at(indexes_folder(index.table_uri), place(table)[1].options) == ["emb"]


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_that_calibrate_were_not_trained_on(
    table: WrittenTable, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, asked = [], []

    def training(sample: Any, **more: Any) -> Any:
        trained.append(np.array(sample, np.float64))
        return train_model(sample, **more)

    def calibrating(view: Any, queries: Any, segments: Any, positions: Any, ks: Any) -> Any:
        asked.append((queries, segments, positions))
        return calibrate(view, queries, segments, positions, ks)

    monkeypatch.setattr("hudi_vector.index.build.train_model", training)
    monkeypatch.setattr("hudi_vector.index.calibration.held_out.calibrate", calibrating)
    index = built(table, kind=kind)
    assert {setting.k for setting in index.manifest.calibration} == {1, 10, 30, 100}
    parts = [pq.read_table(file)["emb"].to_pylist() for file in table.path.glob("a/*.parquet")]
    known = {row: np.frombuffer(row, "<f4").astype(np.float64) for part in parts for row in part if row is not None}
    seen = {row.tobytes() for row in trained[0]}
    for queries, _, positions in asked:
        assert len(queries) == 64
        assert not seen & {row.tobytes() for row in queries}
        for query, position in zip(queries, positions[:, 0].tolist(), strict=True):
            distances = sorted(float(((row - query) ** 2).sum()) for row in known.values())
            assert distances[0] == 0.0
            nearest = [float(((known[part[position]] - query) ** 2).sum()) for part in parts if part[position] in known]
            assert distances[1] in nearest  # not the row that asks
    if kind != "hnsw":
        assert len(seen) == len(known) - 64


def test_wrong_parameters(table: WrittenTable) -> None:
    for parameters, message in (
        ({"kind": "ivf"}, "unknown kind of index 'ivf'; give ivf_sq8, ivf_flat, ivf_rabitq, ivf_pq or hnsw"),
        ({"num_bits": 8}, "num_bits is for the kind ivf_rabitq or ivf_pq or hnsw, and the kind is ivf_sq8; leave it"),
        ({"kind": "hnsw", "num_sub_vectors": 2}, "num_sub_vectors is for the kind ivf_pq, and the kind is hnsw"),
        (
            {"kind": "hnsw", "num_partitions": 2},
            "num_partitions is for the kind ivf_sq8 or ivf_flat or ivf_rabitq or ivf_pq, and",
        ),
        ({"kind": "hnsw", "sample": 2}, "sample is for the kind"),
        ({"kind": "ivf_pq", "num_bits": 5}, "num_bits is 5; give 4 or 8 for an index of kind ivf_pq"),
        ({"kind": "ivf_rabitq", "num_bits": 8}, "num_bits is 8; give 1, 2 or 4 for an index of kind ivf_rabitq"),
        ({"kind": "ivf_pq", "num_sub_vectors": 3}, "num_sub_vectors is 3, and vectors of 4 elements are cut"),
        ({"kind": "ivf_pq", "num_sub_vectors": 0}, "give a number that divides 4, such as 1"),
        ({"num_partitions": 0}, "num_partitions is 0"),
        ({"max_iters": 0}, "max_iters is 0"),
        ({"metric": "l3"}, "unknown metric 'l3'"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            built(table, **parameters)
    assert indexes_at(in_table(f"file://{table.path}", "emb"), place(table)[1].options) == []
    built(table)
    with hv.open(str(table.path), column="emb") as t:
        for asked, message in (
            ({"nprobes": 3}, "nprobes gives up exactness"),
            ({"algorithm": "ivf_flat"}, "its index is ivf_sq8; make such an index"),
            ({"metric": "cosine", "algorithm": "ivf_sq8"}, "its index is for l2"),
            ({"recall_target": 0}, "recall_target must be a number above 0"),
        ):
            with pytest.raises(InvalidArgumentError, match=message):
                t.search(QUERIES[0], **{"metric": "l2", **asked})


def test_the_numbers_of_a_kind_are_kept(table: WrittenTable) -> None:
    for kind, numbers, bits in (
        ("ivf_pq", {"num_sub_vectors": 2, "num_bits": 4}, 4),
        ("ivf_pq", {}, 8),
        ("ivf_rabitq", {"num_bits": 2}, 2),
        ("ivf_rabitq", {}, 1),
        ("hnsw", {"num_bits": 4}, 4),
    ):
        index = built(table, kind=kind, **numbers)
        model = load_model(open_storage(index.folder, place(table)[1].options), index.folder, index.manifest.model_id)
        assert model.num_bits == bits
        assert numbers.items() <= index.manifest.parameters.items()
        assert_exact(table, {"parquet": 3} if kind == "hnsw" else {"index": 3})
        drop_index(index.place, place(table)[1].options)


def test_the_kind_is_chosen_where_none_is_asked(table: WrittenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    at, approximate = place(table), Parameters(metric="l2", recall_target=0.9)
    assert of_usual_kind(*at, approximate).kind == "ivf_sq8"
    monkeypatch.setattr(kinds, "_LEAST_DIMENSION_OF_BITS", 4)
    assert of_usual_kind(*at, approximate).kind == "ivf_sq8"
    monkeypatch.setattr(kinds, "_MOST_HELD", 300 * 4)
    assert of_usual_kind(*at, approximate).kind == "ivf_sq8"
    monkeypatch.setattr(kinds, "_MOST_HELD", 300 * 4 - 1)
    assert of_usual_kind(*at, approximate).kind == "ivf_rabitq"
    assert of_usual_kind(*at, Parameters(metric="l2")).kind == "ivf_sq8"
    built(table, kind="ivf_flat")
    assert of_usual_kind(*at, approximate).kind == "ivf_rabitq"
    assert of_usual_kind(*at, approximate, retrain=False).kind == "ivf_flat"
    assert of_usual_kind(*at, Parameters(metric="cosine"), retrain=False).kind == "ivf_sq8"


def test_graphs_answer_only_where_recall_is_given_up(table: WrittenTable) -> None:
    built(table, kind="hnsw")
    with hv.open(str(table.path), column="emb") as t:
        described = t.search(QUERIES[0], metric="l2").plan.describe()
        assert "none: its index is hnsw, which gives no exact answers: add a recall_target below 1" in described
        assert (
            "hnsw for l2, walks of 40 rows"
            in t.search(QUERIES[0], metric="l2", recall_target=0.9, nprobes=40).plan.describe()
        )
        with pytest.raises(InvalidArgumentError, match="approximate'; or leave the algorithm out"):
            t.search(QUERIES[0], metric="l2", algorithm="hnsw")
        with pytest.raises(InvalidArgumentError, match="nprobes gives up exactness"):
            t.search(QUERIES[0], metric="l2", nprobes=3)
        few = t.search(QUERIES[0], 7, metric="l2", filter="price < 3", mode="approximate")
        exact = t.search(QUERIES[0], 7, metric="l2", filter="price < 3", mode="exact")
        assert few.table.equals(exact.table)


def test_without_faiss(table: WrittenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {kind: built(table, kind=kind) for kind in ("ivf_pq", "hnsw")}
    monkeypatch.setitem(sys.modules, "faiss", None)
    for kind in made:
        with pytest.raises(
            MissingDependencyError, match=rf"kind {kind} needs 'faiss-cpu': install .*hudi-vector\[faiss\]"
        ):
            built(table, kind=kind)
    # Codes are read with numpy alone, graphs are not.
    process_cache().clear()
    assert_exact(table, {"index": 3})
    assert [one[2] for one in hits(table, mode="approximate", algorithm="ivf_pq")] == [{"index": 3}] * len(QUERIES)
    with pytest.raises(InvalidArgumentError, match="and its index is hnsw, which needs 'faiss-cpu': install it"):
        hits(table, mode="approximate", algorithm="hnsw")


def test_a_base_file_that_is_gone_is_no_matter_of_the_index(table: WrittenTable) -> None:
    built(table)
    with hv.open(str(table.path), column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as t:
        t.search(QUERIES[0], metric="l2")
        next(table.path.glob("a/f1*.parquet")).unlink()
        with pytest.raises(DataFileError, match="f1"):
            t.search(QUERIES[1], 200, metric="l2")
