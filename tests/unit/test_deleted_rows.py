"""Deleted rows: told by the caller or by Delta's deletion vectors, left out of scans and under an index alike."""

from __future__ import annotations

import json
import pickle
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.archives import FIXTURES, unpack

import hudi_vector as hv
from hudi_vector.errors import DataFileError, InvalidArgumentError, InvalidTypeError
from hudi_vector.kernels.metrics import exact_distances
from hudi_vector.query.files.deleted import checked_deleted
from hudi_vector.table.deleted_rows import DeletedRows

ROWS, FILES, DIMENSION = 90, 3, 4
VALUES = np.random.default_rng(1).integers(-6, 6, (ROWS * FILES, DIMENSION)).astype("f4")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    folder = tmp_path_factory.mktemp("deleted")
    files = [str(folder / f"{number}.parquet") for number in range(FILES)]
    for number, path in enumerate(files):
        part = slice(number * ROWS, (number + 1) * ROWS)
        held = pa.FixedSizeListArray.from_arrays(pa.array(VALUES[part].ravel()), DIMENSION)
        pq.write_table(
            pa.table({"id": range(part.start, part.stop), "price": [float(i % 9) for i in range(ROWS)], "emb": held}),
            path,
            row_group_size=40,
        )
    directory = str(folder / "indexes")
    for metric in ("l2", "cosine", "dot_product"):
        hv.index.build_if_missing(None, files=files, column="emb", directory=directory, metric=metric, num_partitions=6)
    return files, directory


def told(files: list[str], deleted: set[int], form: str) -> Any:
    """Deleted ids as a caller tells them."""
    pairs = [(files[number // ROWS], number % ROWS) for number in sorted(deleted)]
    if form == "pairs":
        return pairs
    if form == "bools":
        return {file: [n * ROWS + i in deleted for i in range(ROWS)] for n, file in enumerate(files)}
    numbers = {file: {row for one, row in pairs if one == file} for file in files}
    return numbers if form == "sets" else {f: np.array(sorted(rows), np.int32) for f, rows in numbers.items()}


@given(
    deleted=st.one_of(
        st.sets(st.integers(0, ROWS * FILES - 1), max_size=20),
        st.integers(0, 2**32).map(
            lambda seed: set(np.random.default_rng(seed).permutation(ROWS * FILES)[:261].tolist())
        ),
    ),
    form=st.sampled_from(["pairs", "bools", "sets", "arrays"]),
    metric=st.sampled_from(["l2", "cosine", "dot_product"]),
    k=st.sampled_from([1, 5, 60, 1000]),
    filtered=st.booleans(),
    asked=st.sampled_from([{}, {"mode": "exact"}, {"mode": "approximate", "nprobes": 6, "refine_factor": 300}]),
    cached=st.booleans(),
    row=st.integers(0, ROWS * FILES - 1),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_search_finds_what_is_deleted(
    places: tuple[list[str], str], deleted, form, metric, k, filtered, asked, cached, row
) -> None:
    files, directory = places
    query = VALUES[row] + 0.25
    truth = exact_distances(VALUES, query.astype("f8"), metric)
    there = np.array([i not in deleted and (not filtered or i % ROWS % 9 < 4) for i in range(ROWS * FILES)])
    there &= np.isfinite(truth)
    expected = np.sort(truth[there])[:k]
    half = {i for i in deleted if i % 2}
    options = {} if cached else {"hoodie.vector.cache.max.bytes": "0"}
    with hv.open(
        files=files, column="emb", deleted=told(files, half, "pairs"), index_directory=directory, options=options
    ) as t:
        arguments = {"metric": metric, "columns": ["id"], "filter": "price < 4" if filtered else None, **asked}
        found = t.search(query, k, deleted=told(files, deleted - half, form), **arguments)
        np.testing.assert_array_equal(found.column("_distance").to_numpy(), expected)
        ids = found.column("id").to_numpy()
        assert there[ids].all()
        assert len(set(ids.tolist())) == len(expected)
        np.testing.assert_array_equal(truth[ids], expected)
        if not cached:
            assert ("index" in found.report.slices) == (asked.get("mode") != "exact")
        many = t.search_batch([query, query], k, deleted=told(files, deleted - half, form), **arguments)
        assert many.column("id").to_pylist() == ids.tolist() * 2
        assert found.report.rows_seen == ROWS * FILES - len(deleted)


def test_deleted_rows_travel_small() -> None:
    few, half = DeletedRows.of_numbers([10_000_000, 3]), DeletedRows.of_mask(np.arange(80_000) % 2 == 0)
    assert len(pickle.dumps(few)) < 8_000
    assert len(pickle.dumps(half)) < 12_000
    assert (few.count, few.beyond, half.count, half.rows) == (2, 10_000_001, 40_000, 80_000)
    both = half | few
    assert (both.count, both.beyond, both.rows) == (40_002, 10_000_001, 80_000)
    np.testing.assert_array_equal(np.flatnonzero(few.mask(10_000_005, "f")), [3, 10_000_000])
    assert hash(few) == hash(DeletedRows.of_numbers([3, 10_000_000, 3]))
    assert not DeletedRows.of_numbers([]).mask(4, "f").any()


@pytest.mark.parametrize(
    ("deleted", "error", "sentence"),
    [
        (7, InvalidTypeError, "deleted must be a mapping of file to bools or row numbers, or pairs"),
        ("a.parquet", InvalidTypeError, "deleted must be a mapping"),
        ([("a.parquet",)], InvalidTypeError, "deleted must be a mapping"),
        ([(3, 4)], InvalidTypeError, "names files by path or URI, and 3 is neither"),
        ({"a.parquet": 3}, InvalidTypeError, "must be a bool for each row, or row numbers"),
        ({"a.parquet": ["x"]}, InvalidTypeError, "must be a bool for each row, or row numbers"),
        ({"a.parquet": [1.5]}, InvalidTypeError, "must be a bool for each row, or row numbers"),
        ({"a.parquet": [[1], [1, 2]]}, InvalidTypeError, "must be a bool for each row, or row numbers"),
        ({"a.parquet": {True, "x"}}, InvalidTypeError, "must be a bool for each row, or row numbers"),
        ({"a.parquet": [4, -1]}, InvalidArgumentError, "counted from 0, and -1 is among them"),
        ({"a.parquet": [1 << 40]}, InvalidArgumentError, "no file has a row 1099511627776"),
    ],
)
def test_wrong_deleted(deleted: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence) as raised:
        checked_deleted(deleted)
    assert "\n" not in str(raised.value)


def test_deleted_rows_are_of_files_that_are_searched(places: tuple[list[str], str], tmp_path: Path) -> None:
    files, _ = places
    with pytest.raises(InvalidArgumentError, match=r"names 'file:///no\.parquet', which is no file of"):
        hv.open(files=files, column="emb", deleted=[("/no.parquet", 1)])
    with hv.open(files=files, column="emb") as t:
        for deleted, sentence in (
            ({"/no.parquet": [1]}, "which is no file of"),
            ({files[0]: [ROWS]}, f"row {ROWS} of .* is said to be deleted; the file has {ROWS} rows"),
            ({files[0]: [True] * 3}, "are given for 3 rows, and the file has"),
        ):
            with pytest.raises(InvalidArgumentError, match=sentence):
                t.search(VALUES[0], deleted=deleted)
    twice = {files[0]: [True] * 3, "file://" + files[0]: [True] * 4}
    with pytest.raises(InvalidArgumentError, match="are given for 3 and for 4 rows of one file"):
        checked_deleted(twice)
    with pytest.raises(InvalidArgumentError, match="a Hudi table knows its own deleted rows"):
        hv.open(str(tmp_path), column="emb", deleted=[])


@pytest.fixture
def delta(tmp_path: Path) -> str:
    """A table of ids 0 to 79 of which Delta's own writer deleted some, and gave 20 another vector."""
    unpack(FIXTURES / "delta" / "deletion_vectors_3.3.2.tar.gz", tmp_path)
    return str(tmp_path / "table")


LEFT = sorted(set(range(80)) - {3, 8, 9, 33, 60, 79, *range(10, 15)})


def delta_vector(number: int) -> np.ndarray:
    if number == 20:
        return np.full(4, 9.0)
    return np.array([np.float32(np.sin(number * 4 + j) * 5) for j in range(4)], "f8")


@pytest.mark.parametrize("metric", ["l2", "dot_product"])
def test_deltas_deletion_vectors(delta: str, tmp_path: Path, metric: str) -> None:
    directory = str(tmp_path / "indexes")
    hv.index.build_if_missing(None, delta=delta, column="emb", directory=directory, metric=metric)
    query = np.array([0.5, -2.0, 3.0, 1.0])
    distances = exact_distances(np.stack([delta_vector(i) for i in LEFT]), query, metric)
    expected = [LEFT[i] for i in np.argsort(distances, kind="stable")]
    options = {"hoodie.vector.cache.max.bytes": "0"}
    with hv.open(delta=delta, column="emb", index_directory=directory, options=options) as t:
        for asked in ({}, {"mode": "exact"}):
            found = t.search(query, 100, metric=metric, columns=["id"], **asked)
            assert found.column("id").to_pylist() == expected
            np.testing.assert_allclose(found.column("_distance").to_numpy(), np.sort(distances), rtol=1e-6)
            assert set(found.report.slices) == {"parquet" if asked else "index"}
            some = t.search(query, 5, metric=metric, columns=["id"], filter="price > 2", **asked)
            assert some.column("id").to_pylist() == [i for i in expected if i % 7 > 2][:5]
        refs = t.search(query, 3, metric=metric).refs
        fewer = t.search(query, 100, metric=metric, columns=["id"], deleted=refs)
        assert fewer.column("id").to_pylist() == expected[3:]


def test_a_delta_table_is_searched_as_its_log_says_now(delta: str) -> None:
    import deltalake

    with hv.open(delta=delta, column="emb") as t:
        assert len(t.search([1, 2, 3, 4], 100)) == len(LEFT)
        assert t.refresh() is False
        log = Path(delta) / "_delta_log"
        newest = max(log.glob("*.json"))
        # The state before the last commit: another deletion vector of the same files.
        newest.rename(newest.with_suffix(".gone"))
        assert t.refresh() is True
        assert len(t.search([1, 2, 3, 4], 100)) == len(LEFT)
        assert 20 in t.search([1, 2, 3, 4], 100, columns=["id"]).column("id").to_pylist()
    vectors = list(Path(delta).rglob("deletion_vector_*.bin"))
    assert vectors
    assert "deletionVectors" in deltalake.DeltaTable(delta).protocol().reader_features
    for path in vectors:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"a deletion vector of the Delta table .* cannot be read") as raised:
        hv.open(delta=delta, column="emb")
    assert "\n" not in str(raised.value)


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    words = [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
    return "".join(_Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


@pytest.mark.parametrize("kind", ["i", "p"])
def test_every_kind_of_deletion_vector(delta: str, kind: str) -> None:
    """Delta's writer stores them in files beside the table; here they are moved into the log, or named in full."""
    query = [0.5, -2.0, 3.0, 1.0]
    with hv.open(delta=delta, column="emb") as t:
        expected = t.search(query, 100, columns=["id"]).table
    stored = {z85(uuid.UUID(path.stem[-36:]).bytes): path for path in Path(delta).glob("deletion_vector_*.bin")}
    changed = 0
    for log in sorted((Path(delta) / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            for vector in (entry.get("deletionVector") for entry in action.values()):
                if vector:
                    path = stored[vector["pathOrInlineDv"][-20:]]
                    start = vector["offset"] + 4  # the size comes first
                    data = path.read_bytes()[start : start + vector["sizeInBytes"]]
                    if kind == "i":
                        padded = data + bytes(-len(data) % 4)
                        vector |= {"storageType": "i", "pathOrInlineDv": z85(padded)}
                        del vector["offset"]
                    else:
                        vector |= {"storageType": "p", "pathOrInlineDv": path.as_uri()}
                    changed += 1
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert changed >= 4
    with hv.open(delta=delta, column="emb") as t:
        assert t.search(query, 100, columns=["id"]).table.equals(expected)
