"""Indexes over files that are no table's, and in other directories: built by threads, shared by lists, never wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from support.written_table import WrittenTable, rows_of

import hudi_vector as hv
from hudi_vector.command.main import main
from hudi_vector.errors import DataFileError, InvalidArgumentError, InvalidTypeError, UnsupportedTableError
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.index.drift import UNKNOWN, Quality, quality_of, retraining
from hudi_vector.index.kinds.segment import FileFingerprint, Segment
from hudi_vector.index.locations import in_directory
from hudi_vector.index.reachable import require_reachable
from hudi_vector.kernels.metrics import exact_distances
from hudi_vector.query.files.plain_files import PlainFiles
from hudi_vector.query.opened.external import build_external, external_indexes
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import StorageOptions
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.vector_index.api import _advice

DIMENSION = 6
QUERIES = np.random.default_rng(5).standard_normal((4, DIMENSION)) * 2


def vectors(rows: int, seed: int, element: str = "f4") -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((5, DIMENSION)) * 4
    return (centres[numbers.integers(0, 5, rows)] + numbers.standard_normal((rows, DIMENSION))).astype(element)


def table_of(values: np.ndarray[Any, Any], first: int = 0, form: str = "fixed") -> pa.Table:
    flat = pa.array(values.ravel())
    held: Any = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    if form == "list":
        held = held.cast(pa.list_(flat.type))
    elif form == "large":
        held = held.cast(pa.large_list(flat.type))
    elif form == "bytes":
        held = pa.array([row.tobytes() for row in values], pa.binary(values.shape[1] * values.itemsize))
    ids = range(first, first + len(values))
    return pa.table({"id": ids, "price": [float(i % 100) for i in ids], "emb": held})


def write_files(folder: Path, count: int = 4, rows: int = 120, form: str = "fixed", **options: Any) -> list[str]:
    folder.mkdir(exist_ok=True)
    paths = []
    for number in range(count):
        paths.append(str(folder / f"{number}.parquet"))
        pq.write_table(table_of(vectors(rows, number), number * rows, form), paths[-1], **options)
    return paths


def all_vectors(count: int = 4, rows: int = 120) -> np.ndarray[Any, Any]:
    return np.concatenate([vectors(rows, number) for number in range(count)])


@pytest.fixture(autouse=True)
def _calibrated(request: pytest.FixtureRequest) -> None:
    if request.function is not test_recall_is_measured:
        request.getfixturevalue("briefly_calibrated")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_files(tmp_path / "data")


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "indexes")


def built(directory: str, **named: Any) -> Any:
    return hv.index.build_if_missing(None, column="emb", directory=directory, **{"metric": "l2", **named})


def opened(directory: str | None = None, **named: Any) -> Any:
    # Vectors in memory would answer in place of the index.
    options = {"hoodie.vector.cache.max.bytes": "0"}
    return hv.open(column="emb", index_directory=directory, options=options, **named)


def assert_exact(directory: str, slices: dict[str, int], **named: Any) -> None:
    with opened(directory, **named) as t:
        for query in QUERIES:
            for asked in ({}, {"filter": "price < 30"}, {"k": 40}):
                arguments = {"k": 7, "metric": "l2", "columns": ["id"], **asked}
                found, expected = t.search(query, **arguments), t.search(query, mode="exact", **arguments)
                assert found.table.equals(expected.table)
                assert found.report.slices == slices
        many = t.search_batch(QUERIES, 7, metric="l2", columns=["id"])
        single = [t.search(query, 7, metric="l2", columns=["id"]).table for query in QUERIES]
        assert many.table.drop_columns(["_hudi_query_index"]).equals(pa.concat_tables(single))


@pytest.mark.parametrize("form", ["fixed", "list", "large", "bytes"])
@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_flat"])
def test_files_are_indexed_without_spark(tmp_path: Path, directory: str, form: str, kind: str) -> None:
    files = write_files(tmp_path / "data", form=form)
    made = built(directory, files=files, kind=kind)
    assert (made.segments_made, made.segments_kept, made.covered_rows, made.kind) == (4, 0, 480, kind)
    assert made.advice == "the vectors have 0.0 MiB: below about 8 MiB searches are as fast without an index"
    assert made.advice in repr(made)
    assert_exact(directory, {"index": 4}, files=files)
    truth = exact_distances(all_vectors(), QUERIES[0], "l2")
    with opened(directory, files=files[::-1]) as t:
        hits = t.search(QUERIES[0], 9, metric="l2", columns=["id"])
        np.testing.assert_array_equal(hits.column("id").to_numpy(), np.argsort(truth)[:9])
        assert kind in hits.plan.describe()
        assert "certain" not in hits.plan.describe()
        few = t.search(QUERIES[0], 5, metric="l2", mode="approximate", nprobes=1)
        assert few.plan.index is not None
        assert not few.plan.index.certain
        assert "its index is for l2" in t.search(QUERIES[0], metric="cosine").plan.describe()
    with opened(files=files) as t:  # nobody said where indexes lie
        assert t.search(QUERIES[0], metric="l2").report.slices == {"parquet": 4}
    off = {"hoodie.vector.index.external.dir": directory, "hoodie.vector.index.external.enabled": "false"}
    with hv.open(files=files, column="emb", options=off) as t:
        assert t.search(QUERIES[0], metric="l2").report.slices == {"parquet": 4}


def test_an_index_is_named_by_files_column_and_parameters(files: list[str], directory: str) -> None:
    built(directory, files=files, num_partitions=8)
    key_folder = next(Path(directory).rglob("manifests/*"))
    named = hashlib.sha256(json.dumps([["num_partitions", 8]]).encode()).hexdigest()[:16]
    shape = key_folder.parent.parent.name
    assert shape == f"l2-ivf_sq8-{named}"
    listed = [*sorted(f"file://{file}" for file in files), "emb", shape]
    assert key_folder.name == hashlib.sha256("\n".join(listed).encode()).hexdigest()
    assert built(directory, files=files[::-1] + files[:1], num_partitions=8).segments_made == 0
    assert built(directory, files=files, num_partitions=8, recall_target=0.9).segments_made == 0
    assert built(directory, files=files, num_partitions=7).segments_made == 4
    assert len(hv.index.describe(None, files=files, directory=directory)) == 2
    assert hv.index.describe(None, files=files, directory=directory, column="id") == []


def test_a_changed_list_needs_only_new_segments(tmp_path: Path, directory: str) -> None:
    files = write_files(tmp_path / "data", count=6)
    assert built(directory, files=files[:4]).segments_made == 4
    more = built(directory, files=files[:5])
    assert (more.segments_made, more.segments_kept) == (1, 4)
    fewer = built(directory, files=files[1:5])
    assert (fewer.segments_made, fewer.segments_kept) == (0, 4)
    for listed in (files[:4], files[:5], files[1:5]):
        assert_exact(directory, {"index": len(listed)}, files=listed)
    # A list that shares less than half gets a model of its own.
    other = built(directory, files=[files[0], files[5]])
    assert other.segments_made == 1 + (other.segments_kept == 0)
    hv.index.drop(None, files=files[:4], column="emb", directory=directory)
    with opened(directory, files=files[:4]) as t:
        assert t.search(QUERIES[0], metric="l2").report.slices == {"parquet": 4}
    assert_exact(directory, {"index": 5}, files=files[:5])


def test_what_no_list_needs_is_removed(tmp_path: Path, directory: str) -> None:
    files = write_files(tmp_path / "data", count=5)
    built(directory, files=files)
    built(directory, files=files[:4])
    assert hv.index.compact(None, files=files[:4], column="emb", directory=directory, grace="0s") == []
    os.unlink(files[4])
    gone = hv.index.compact(None, files=files[:4], column="emb", directory=directory, grace="0s")
    assert gone.rows() == [{"value": path} for path in gone]
    assert sorted(name.partition("/")[0] for name in gone) == ["manifests", "segments"]
    assert_exact(directory, {"index": 4}, files=files[:4])
    assert hv.index.verify(None, files=files[:4], column="emb", directory=directory) == []
    hv.index.drop(None, files=files[:4], column="EMB", directory=directory)
    assert [path for path in Path(directory).rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("gone", [("manifests",), ("manifests", "recall", "packs"), ("manifests", "segments")])
def test_a_second_drop_removes_what_a_killed_one_left(files: list[str], directory: str, gone: tuple[str, ...]) -> None:
    """A drop removes manifests first, so one that is killed leaves files that no index names."""
    built(directory, files=files)
    for part in gone:
        for folder in Path(directory).rglob(part):
            shutil.rmtree(folder)
    assert hv.index.describe(None, files=files, directory=directory) == []
    named = {"files": files, "column": "emb", "directory": directory}
    for other in ({"kind": "ivf_flat"}, {"metric": "cosine"}):
        assert hv.index.drop(None, **named, **other) == []
        assert any(path.is_file() for path in Path(directory).rglob("*"))
    assert hv.index.drop(None, **named, kind="ivf_sq8", metric="euclidean") == []
    assert [path for path in Path(directory).rglob("*") if path.is_file()] == []


def test_a_file_written_anew_is_scanned_with_a_warning(
    files: list[str], directory: str, caplog: pytest.LogCaptureFixture
) -> None:
    built(directory, files=files)
    before = os.stat(files[1])
    changed = table_of(vectors(120, 99), 120)
    pq.write_table(changed, files[1])
    # Of the same size and time, so that only the footer tells.
    content = Path(files[1]).read_bytes()
    if len(content) == before.st_size:
        os.utime(files[1], ns=(before.st_atime_ns, before.st_mtime_ns))
    with caplog.at_level(logging.WARNING, "hudi_vector.index"):
        assert_exact(directory, {"index": 3, "parquet": 1}, files=files)
    assert "1 of the 4 files of the index 'l2-ivf_sq8, generation 1' were rewritten" in caplog.text
    assert [one.file for one in hv.index.verify(None, files=files, column="emb", directory=directory)] == [
        f"file://{files[1]}"
    ]
    refreshed = hv.index.refresh(None, files=files, column="emb", directory=directory)
    assert (refreshed.segments_made, refreshed.segments_kept) == (1, 3)
    assert_exact(directory, {"index": 4}, files=files)


def test_only_the_footer_may_tell(files: list[str], directory: str) -> None:
    """A file of the same size and time whose statistics differ: its segment answers for it no more."""
    built(directory, files=files)
    before, content = os.stat(files[2]), bytearray(Path(files[2]).read_bytes())
    swapped = content.replace(b"parquet-cpp-arrow", b"parquet-cpp-arroW")
    assert swapped != content
    Path(files[2]).write_bytes(swapped)
    os.utime(files[2], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert_exact(directory, {"index": 3, "parquet": 1}, files=files)
    assert built(directory, files=files).segments_made == 1
    assert_exact(directory, {"index": 4}, files=files)


def test_a_vector_that_is_none_any_more_is_no_silent_miss(tmp_path: Path, directory: str) -> None:
    """Bytes that changed beneath the same footer, size and time."""
    files = write_files(tmp_path / "data", compression="none", use_dictionary=False)
    built(directory, files=files)
    row, before = vectors(120, 2)[40], os.stat(files[2])
    content = Path(files[2]).read_bytes()
    assert content.count(row.tobytes()) == 1
    Path(files[2]).write_bytes(content.replace(row.tobytes(), np.full_like(row, np.nan).tobytes()))
    os.utime(files[2], ns=(before.st_atime_ns, before.st_mtime_ns))
    with opened(directory, files=files) as t, pytest.raises(DataFileError, match=r"rows of .*2\.parquet"):
        t.search(row.astype(float), 3, metric="l2")


def test_a_segment_that_is_gone_is_made_again(files: list[str], directory: str) -> None:
    built(directory, files=files)
    next(Path(directory).rglob("segments/*")).unlink()
    assert_exact(directory, {"index": 4}, files=files)  # scanned, since the segments are joined
    healed = hv.index.refresh(None, files=files, column="emb", directory=directory)
    assert (healed.segments_made, healed.segments_kept) == (1, 3)
    assert hv.index.verify(None, files=files, column="emb", directory=directory) == []


def test_a_copy_elsewhere_finds_the_indexes(files: list[str], directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built(directory, files=files)
    monkeypatch.chdir(Path(directory).parent)
    packed = pickle.dumps(opened("indexes", files=files))
    monkeypatch.chdir("/")
    found = pickle.loads(packed).search(QUERIES[0], 7, metric="l2")
    assert found.report.slices == {"index": 4}


def test_vectors_in_memory_are_scanned_by_exact_searches(tmp_path: Path, directory: str) -> None:
    files = write_files(tmp_path / "data", rows=2000, form="bytes", use_dictionary=False, data_page_size=1024)
    built(directory, files=files)
    asked: dict[str, Any] = {"k": 7, "metric": "l2", "columns": ["id"]}
    with hv.open(files=files, column="emb", index_directory=directory) as t:
        by_codes = [t.search(QUERIES[number % 4], **asked) for number in range(20)]
        assert {hits.report.cached_slices for hits in by_codes} == {0}, "searches by codes never read all vectors"
        t.search(QUERIES[0], mode="exact", **asked)
        scanned = t.search(QUERIES[0], **asked)
        assert scanned.report.cached_slices == 4
        assert scanned.table.equals(by_codes[0].table)
        assert t.search(QUERIES[0], filter="price < 30", **asked).report.cached_slices == 0
        assert t.search(QUERIES[0], recall_target=0.9, **asked).report.cached_slices == 0


def test_drift_is_told(tmp_path: Path, directory: str) -> None:
    files = write_files(tmp_path / "data", count=5, rows=400)
    assert built(directory, files=files[:4]).proposal == ""
    same = built(directory, files=files)
    assert (same.segments_kept, same.proposal) == (4, "")
    pq.write_table(table_of(vectors(400, 4) * 10, 1600), files[4])
    drifted = built(directory, files=files)
    assert drifted.proposal.endswith(
        "outside the range the model was trained on; make the index again with hudi_vector.index.create"
    )
    assert list(drifted.lines())[1] == drifted.proposal
    (described,) = hv.index.describe(None, files=files, directory=directory)
    assert described.proposal == drifted.proposal
    assert described.clipped_rows > 200
    anew = hv.index.create(None, files=files, column="emb", metric="l2", directory=directory)
    assert anew.proposal == ""
    assert hv.index.describe(None, files=files, directory=directory)[0].error < described.error / 10
    assert_exact(directory, {"index": 5}, files=files)


@pytest.mark.parametrize(
    ("kind", "now", "clipped", "sentence"),
    [
        ("ivf_pq", Quality(0.14, 1.9), 0, ""),
        ("ivf_pq", Quality(0.2, 1.9), 0, "vectors lie 2.0 times as far from their codes"),
        ("ivf_sq8", Quality(0.2, 1.9), 5, ""),
        ("ivf_flat", Quality(0.2, 1.9), 0, ""),
        ("ivf_flat", Quality(0.1, 9.1), 0, ""),
        ("ivf_sq8", Quality(0.1, 1.0), 6, "6 of 100 rows have a value outside the range"),
        ("ivf_sq8", Quality(), 0, ""),
    ],
)
def test_when_retraining_is_proposed(kind: str, now: Quality, clipped: int, sentence: str) -> None:
    told = retraining(kind, Quality(0.1, 1.0), now, clipped, 100)
    assert told.startswith(sentence)
    assert bool(told) == bool(sentence)
    assert retraining(kind, UNKNOWN, Quality(9.0, 9.0), 0, 100) == ""


def test_uneven_lists_alone_are_no_reason_to_train_again(tmp_path: Path, directory: str) -> None:
    files = write_files(tmp_path / "data", count=5, rows=400)
    built(directory, files=files[:4])
    (before,) = hv.index.describe(None, files=files[:4], directory=directory)
    pq.write_table(table_of(vectors(1, 4).repeat(1600, axis=0), 1600), files[4])
    assert built(directory, files=files).proposal == ""
    (described,) = [one for one in hv.index.describe(None, files=files, directory=directory) if one.files == 5]
    assert described.imbalance > 2 * before.imbalance
    assert (described.clipped_rows <= 1, described.proposal) == (True, "")


def test_imbalance_does_not_depend_on_how_many_rows_a_file_has() -> None:
    def of(sizes: list[int]) -> float:
        count = sum(sizes)
        zeros = np.zeros(count, np.float32)
        segment = Segment(
            FileFingerprint("f", 1, 1, ""), "m", count, np.concatenate(([0], np.cumsum(sizes))),
            np.arange(count, dtype=np.uint32), np.zeros((count, 1), np.uint8), zeros, zeros, np.zeros(len(sizes)),
            np.empty(0, np.int64), 0,
        )  # fmt: skip
        return quality_of(segment).imbalance

    chance = np.random.default_rng(0)
    few = [of(np.bincount(chance.integers(0, 50, 40), minlength=50).tolist()) for _ in range(200)]
    assert 0.9 < np.mean(few) < 1.1
    assert 0.99 < of(np.bincount(chance.integers(0, 50, 100_000), minlength=50).tolist()) < 1.01
    assert of([1000] + [0] * 49) == pytest.approx(50)
    assert of([1]) == 0.0


def test_recall_is_measured(files: list[str], directory: str) -> None:
    built(directory, files=files)
    measured = hv.index.recall(None, files=files, column="emb", directory=directory, sample=20, recall_target=0.9)
    assert (measured.queries, measured.k, measured.metric) == (20, 10, "l2")
    assert measured.recall >= 0.8


def test_the_seam_that_joins_use(files: list[str], directory: str) -> None:
    snapshot = PlainFiles(files, StorageOptions(), "emb").snapshot()
    wanted = Parameters(metric="cosine", num_partitions=4)
    assert external_indexes(snapshot, "emb", directory) == []
    made = build_external(snapshot, "EMB", wanted, directory)
    assert external_indexes(snapshot, "emb", directory) == [made]
    assert build_external(snapshot, "emb", wanted, directory) == made
    assert [file.uri for file, _ in made.covered([entry.base_file for entry in snapshot.file_slices])] == [
        f"file://{file}" for file in files
    ]


def test_lists_of_several_lengths_are_refused(tmp_path: Path, directory: str) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"emb": pa.array([[1.0, 2.0]] * 20 + [[1.0, 2.0, 3.0]] * 3 + [None])}), path)
    with pytest.raises(UnsupportedTableError, match="has 3 vectors that are not of 2 elements; an index is made of"):
        built(directory, files=[path])
    with opened(directory, files=[path]) as t:
        assert len(t.search([1, 2], 100, metric="l2")) == 20
        assert len(t.search([1, 2, 3], 100, metric="l2")) == 3
    pq.write_table(pa.table({"emb": pa.array([None, None], pa.list_(pa.float32()))}), path)
    with pytest.raises(InvalidArgumentError, match="holds no vector that an index could be made of"):
        built(directory, files=[path])
    pq.write_table(pa.table({"emb": pa.array([b"123456"], pa.binary(6))}), path)
    with pytest.raises(InvalidTypeError, match="holds 6 bytes a row and no descriptor"):
        built(directory, files=[path])


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ({"use_dictionary": True, "compression": "gzip"}, "bytes"),
        ({"use_dictionary": ["emb"], "write_page_index": False}, "bytes"),
        ({"use_dictionary": False, "compression": "snappy", "write_page_index": True, "data_page_size": 512}, "bytes"),
        ({"use_dictionary": False, "compression": "none", "data_page_version": "2.0"}, "bytes"),
        ({"use_dictionary": True, "compression": "zstd", "row_group_size": 50}, "list"),
        ({"use_deprecated_int96_timestamps": True}, "fixed"),
    ],
)
def test_forms_of_parquet(tmp_path: Path, directory: str, written: dict[str, Any], form: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    files = [str(folder / f"{number}.parquet") for number in range(2)]
    for number, path in enumerate(files):
        held = table_of(vectors(150, number), number * 150, form)
        times = pa.array(np.arange(150).astype("datetime64[s]").astype("datetime64[ns]"))
        pq.write_table(held.append_column("seen", times), path, **written)
    built(directory, files=files)
    assert_exact(directory, {"index": 2}, files=files)
    with opened(directory, files=files) as t:
        first = t.search(QUERIES[0], 300, metric="l2", columns=["id", "seen"], filter="id = 3").to_pylist()
        assert [(row["id"], row["seen"].second) for row in first] == [(3, 3)]


def test_a_table_may_have_its_index_elsewhere(tmp_path: Path, directory: str) -> None:
    table, rows = WrittenTable(tmp_path / "t"), rows_of(300, "a", 1)
    table.commit({("a", "f1"): rows[:100], ("a", "f2"): rows[100:]})
    snapshot = NativeTable(Source(f"file://{table.path}", "t")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, table.element))
    create_index(snapshot, spec, Parameters(metric="l2"), home=in_directory(directory, snapshot.source.uri, "emb"))
    assert not (table.path / ".hoodie/vector_index").exists()
    query = QUERIES[0][:4]
    with opened(directory, table=str(table.path)) as t:
        found = t.search(query, 9, metric="l2", columns=["id"])
        assert found.report.slices == {"index": 2}
        assert found.table.equals(t.search(query, 9, metric="l2", columns=["id"], mode="exact").table)
        table.commit({("a", "f2"): rows[100:150]})
        t.refresh()
        assert t.search(query, 9, metric="l2").report.slices == {"index": 1, "parquet": 1}
    with opened(table=str(table.path)) as t:
        assert t.search(query, 9, metric="l2").report.slices == {"parquet": 2}
    shutil.move(directory, directory + "_moved")
    with opened(directory + "_moved", table=str(table.path)) as t:
        assert t.search(query, 9, metric="l2").report.slices == {"index": 1, "parquet": 1}


def test_a_directory_has_to_be_one_that_executors_reach(directory: str, tmp_path: Path) -> None:
    options = StorageOptions()
    for master in ("local", "local[2]", "local-cluster[1,1,1024]"):
        require_reachable(directory, master, 2, options, map)
    with pytest.raises(InvalidArgumentError, match="is a local path, and executors of 'spark://h:7077' do not see"):
        require_reachable(directory, "spark://h:7077", 2, options, map)
    shared = f"memory:///{tmp_path.name}"
    require_reachable(shared, "yarn", 3, options, map)

    def elsewhere(run: Any, items: Any) -> Any:
        return [run(item if number else item + "x") for number, item in enumerate(items)]

    with pytest.raises(InvalidArgumentError, match="1 of 3 tasks on the executors do not see what is written"):
        require_reachable(shared, "yarn", 3, options, elsewhere)


@pytest.mark.parametrize(
    ("job", "choice", "damage"),
    [
        ("refresh", {"deep": True}, "flipped"),
        ("create", {}, "flipped"),
        ("refresh", {}, "cut"),
        ("refresh", {"deep": True}, "cut"),
        ("build_if_missing", {}, "cut"),
    ],
)
@pytest.mark.parametrize("kind", ["ivf_sq8", "hnsw"])
def test_a_damaged_segment_is_named_and_made_anew(
    files: list[str], directory: str, kind: str, job: str, choice: dict[str, Any], damage: str
) -> None:
    named: dict[str, Any] = {"files": files, "directory": directory, "column": "emb"}
    choice = {**choice, "kind": kind, "metric": "l2"}
    hv.index.create(None, **named, kind=kind, metric="l2")
    segments = sorted(Path(directory).rglob("segments/*.arrow"))
    whole = [file.read_bytes() for file in segments]
    broken = bytearray(whole[1])
    broken[len(broken) // 2] ^= 255
    segments[1].write_bytes(broken if damage == "flipped" else broken[:-200])
    (problem,) = hv.index.verify(None, **named)
    assert problem.segment == segments[1].name
    assert problem.problem.endswith(
        "; hudi_vector.index.refresh(…, deep=True), as a command with --deep, makes it again"
    )
    made = getattr(hv.index, job)(None, **named, **choice)
    assert (made.segments_made, made.segments_kept) == (1, 3)
    assert [file.read_bytes() for file in segments] == whole
    assert hv.index.verify(None, **named) == []
    again = getattr(hv.index, job)(None, **named, **choice)
    assert (again.segments_made, again.segments_kept) == (0, 4)


def test_only_a_deep_refresh_reads_segments(files: list[str], directory: str, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that changed within a segment of the same length stay until they are looked for; searches scan meanwhile."""
    built(directory, files=files)
    named: dict[str, Any] = {"files": files, "directory": directory, "column": "emb"}
    flipped, gone = sorted(Path(directory).rglob("segments/*.arrow"))[1:3]
    whole = flipped.read_bytes()
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 255
    flipped.write_bytes(damaged)
    gone.unlink()
    assert hv.index.refresh(None, **named).segments_made == 1  # what is gone
    assert flipped.read_bytes() == damaged
    with caplog.at_level(logging.WARNING, "hudi_vector"):
        assert_exact(directory, {"index": 4}, files=files)
    assert "or the segments are damaged, which refresh(…, deep=True) or --deep of its command repairs" in caplog.text
    command = ["index", "refresh", "--column", "emb", "--directory", directory, "--deep"]
    assert main([*command, *(word for file in files for word in ("--file", file))]) == 0
    assert flipped.read_bytes() == whole
    assert hv.index.verify(None, **named) == []


def test_a_segment_of_another_file_is_no_segment(files: list[str], directory: str) -> None:
    built(directory, files=files)
    first, second = sorted(Path(directory).rglob("segments/*.arrow"))[:2]
    shutil.copy(first, second)
    named: dict[str, Any] = {"files": files, "directory": directory, "column": "emb"}
    assert len(hv.index.verify(None, **named)) == 1
    hv.index.refresh(None, **named, deep=True)
    assert hv.index.verify(None, **named) == []
    assert_exact(directory, {"index": 4}, files=files)


@pytest.mark.parametrize(
    ("job", "named", "sentence"),
    [
        ("build_if_missing", {}, "give exactly one of table, files and delta"),
        ("build_if_missing", {"files": ["a"], "delta": "b"}, "give exactly one of table, files and delta"),
        ("build_if_missing", {"table": "t"}, "'t' is found by a session only; give one, or a path on this machine"),
        ("build_if_missing", {"files": ["a"], "directory": None}, "an index of files needs a directory"),
        ("build_if_missing", {"files": ["a"], "directory": 7}, "'directory' must be text"),
        ("build_if_missing", {"files": []}, "files is an empty list"),
        ("build_if_missing", {"files": "a.parquet"}, "files must be a list of paths"),
        ("build_if_missing", {"files": ["/no/such.parquet"]}, "there is no file 'file:///no/such.parquet'"),
        ("build_if_missing", {"files": "here", "column": "emd"}, "did you mean 'emb'"),
        ("build_if_missing", {"files": "here", "column": None}, "'column' must be text"),
        ("build_if_missing", {"files": "here", "column": "price"}, "a search needs a VECTOR"),
        ("create", {"files": 123}, "files must be a list of paths or URIs, not 123"),
        ("create", {"files": ["a"], "storage_options": 5}, "storage_options must be a dictionary of texts, not 5"),
        (
            "recall",
            {"files": ["a"], "storage_options": {"fs.s3a.endpoint": 5}},
            "texts; the setting 'fs.s3a.endpoint' is none",
        ),
        ("drop", {"files": "here", "kind": "bogus"}, "unknown kind of index 'bogus'; give ivf_sq8, ivf_flat"),
        ("refresh", {"files": "here", "kind": 5}, "unknown kind of index 5; give ivf_sq8, ivf_flat"),
        ("recall", {"files": "here", "at_least": float("nan")}, "at_least must be a number, not NaN"),
        ("refresh", {"files": "here"}, "has 0 such indexes .*; make one with hudi_vector.index.create"),
        ("refresh", {"files": "here", "deep": "yes"}, "deep must be true or false, not 'yes'"),
        ("drop", {"files": "here", "column": None}, "'column' must be text"),
        ("drop", {"files": "here", "column": "emd"}, "did you mean 'emb'"),
    ],
)
def test_wrong_input(files: list[str], directory: str, job: str, named: dict[str, Any], sentence: str) -> None:
    if named.get("files") == "here":
        named = {**named, "files": files}
    with pytest.raises((ValueError, TypeError, LookupError, OSError), match=sentence) as raised:
        getattr(hv.index, job)(None, **{"column": "emb", "directory": directory, **named})
    assert "\n" not in str(raised.value)


def test_files_may_come_from_a_generator(files: list[str], directory: str) -> None:
    assert built(directory, files=(file for file in files)).segments_made == 4


def test_the_history_of_recall_goes_with_the_index(files: list[str], directory: str) -> None:
    named: dict[str, Any] = {"files": files, "directory": directory, "column": "emb"}
    built(directory, files=files)
    built(directory, files=files[:2])
    hv.index.recall(None, **named, sample=5)
    hv.index.recall(None, **{**named, "files": files[:2]}, sample=5)
    assert len(hv.index.describe(None, **named)[0].recalls) == 1
    hv.index.drop(None, **named)
    built(directory, files=files)
    assert hv.index.describe(None, **named)[0].recalls == ()
    assert len(hv.index.describe(None, **{**named, "files": files[:2]})[0].recalls) == 1


def test_an_encrypted_file_is_refused_in_a_sentence(tmp_path: Path, directory: str) -> None:

    class Keys(pe.KmsClient):  # type: ignore[misc, name-defined]
        def __init__(self, _: Any) -> None:
            super().__init__()

        def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
            return base64.b64encode(key_bytes)

        def unwrap_key(self, wrapped_key: bytes, _: str) -> bytes:
            return base64.b64decode(wrapped_key)

    held, path = pa.table({"id": range(5), "emb": [[1.0, 2.0]] * 5}), str(tmp_path / "a.parquet")
    for plain in (False, True):
        how = pe.EncryptionConfiguration(
            footer_key="f", column_keys={"c": ["emb.list.element"]}, plaintext_footer=plain
        )
        keys = pe.CryptoFactory(Keys).file_encryption_properties(pe.KmsConnectionConfig(), how)
        with pq.ParquetWriter(path, held.schema, encryption_properties=keys) as writer:
            writer.write_table(held)
        with pytest.raises(DataFileError, match=r"a\.parquet' cannot be read: .*crypt") as raised:
            built(directory, files=[path])
        assert "\n" not in str(raised.value)


def test_a_delta_table_through_its_life(tmp_path: Path, directory: str) -> None:
    path = str(tmp_path / "words")
    for number in range(4):
        held = table_of(vectors(120, number), number * 120, "list")
        deltalake.write_deltalake(path, held, mode="append")
    assert built(directory, delta=path).segments_made == 4
    assert_exact(directory, {"index": 4}, delta=path)
    assert_exact(directory, {"index": 4}, files=deltalake.DeltaTable(path).file_uris())
    deltalake.write_deltalake(path, table_of(vectors(120, 7), 480, "list"), mode="append")
    with opened(directory, delta=path) as t:
        assert t.search(QUERIES[0], metric="l2").report.slices == {"parquet": 5}
    again = built(directory, delta=path)
    assert (again.segments_made, again.segments_kept) == (1, 4)
    deltalake.DeltaTable(path).delete("id between 100 and 130")  # writes two files anew, as one
    again = built(directory, delta=path)
    assert (again.segments_made, again.segments_kept) == (1, 3)
    assert_exact(directory, {"index": 4}, delta=path)
    with opened(directory, delta=path) as t:
        ids = t.search(QUERIES[0], 1000, metric="l2", columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == [i for i in range(600) if not 100 <= i <= 130]
    deltalake.DeltaTable(path).optimize.compact()
    deltalake.DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert built(directory, delta=path).segments_made == 1  # one file, of which nothing is known
    assert_exact(directory, {"index": 1}, delta=path)
    gone = hv.index.compact(None, delta=path, column="emb", directory=directory, grace="0s")
    assert len([name for name in gone if name.startswith("segments/")]) == 6
    assert_exact(directory, {"index": 1}, delta=path)


def test_the_command_needs_no_spark_for_files(
    files: list[str], directory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> tuple[int, list[dict[str, Any]]]:
        named = [word for file in files for word in ("--file", file)]
        code = main(["index", words[0], *named, "--directory", directory, "--format", "json", *words[1:]])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    code, (made,) = run("build-if-missing", "--column", "emb", "--metric", "l2")
    assert (code, made["segments_made"], made["covered_rows"]) == (0, 4, 480)
    assert [one["covered_files"] for one in run("describe")[1]] == [4]
    assert run("verify", "--column", "emb") == (0, [])
    assert main(["index", "refresh", "--file", files[0], "--column", "emb"]) == 2
    assert "an index of files needs a directory" in capsys.readouterr().err
    assert main(["index", "describe", "--file", files[0], "--table", "t"]) == 2
    assert capsys.readouterr().err == "hudi-vector: give one of a table, --file and --delta\n"


@pytest.mark.parametrize(
    ("mebibytes", "target", "folder", "said"),
    [
        (1, None, "file:///t", "below about 8 MiB searches are as fast without an index"),
        (1, 0.9, "file:///t", "below about 8 MiB searches are as fast without an index"),
        (50, None, "file:///t", "below about 128 MiB exact searches are as fast without an index"),
        (50, 1.0, "file:///t", "those with a recall target, such as recall_target=0.95, are several times faster"),
        (50, 0.9, "file:///t", ""),
        (500, None, "file:///t", ""),
        (1, None, "s3a://bucket/t", ""),
    ],
)
def test_an_index_that_is_hardly_worth_having_says_so(
    mebibytes: int, target: float | None, folder: str, said: str
) -> None:
    found = _advice(mebibytes << 20, target, folder)
    assert said in found
    assert bool(said) == bool(found)
