"""Small base files that are scanned together: the nearest rows are those of brute force, however the files are grouped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.opened import found_in
from support.written_table import Row, WrittenTable, brute_force, rows_of

import hudi_vector as hv
from hudi_vector.index.kinds.segment import FileFingerprint
from hudi_vector.index.manifest import ManifestEntry
from hudi_vector.query.indexed import slices

# Few values, so that many rows are equally far away, in one file and in several.
_ROWS = st.lists(st.one_of(st.none(), st.tuples(*[st.integers(0, 2)] * 4)), max_size=12)


@given(files=st.lists(_ROWS, min_size=1, max_size=7), k=st.integers(1, 30), most=st.sampled_from([0, 9000, 1 << 20]))
def test_the_nearest_rows_of_many_files(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[int, ...] | None]], k: int, most: int
) -> None:
    table = WrittenTable(tmp_path_factory.mktemp("together"))
    numbers = iter(np.random.default_rng(sum(map(len, files))).permutation(100).tolist())
    rows = [[Row(next(numbers), "a", 1.0, "", emb and tuple(map(float, emb))) for emb in file] for file in files]
    table.commit({("a", f"f{number}"): own for number, own in enumerate(rows)})
    query = (1.0, 0.0, 2.0, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "_TOGETHER_BYTES", most)
        with hv.open(str(table.path), column="emb") as opened:
            for metric in ("l2", "dot_product"):
                wanted = brute_force((row for own in rows for row in own), query, k, metric)
                for _ in range(2):  # the second time from memory
                    found = opened.search(query, k, metric=metric, columns=["id"])
                    distances, keys = (found.column(name).to_pylist() for name in ("_distance", "id"))
                    assert list(map(str, keys)) == [key for _, key, _ in wanted]
                    np.testing.assert_allclose(distances, [distance for distance, _, _ in wanted], rtol=1e-6)


def test_rows_and_reasons_are_counted_as_for_single_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = WrittenTable(tmp_path / "t")
    vectors: list[tuple[float, ...] | None] = [(1.0, 2.0, 3.0, 4.0), None, (float("nan"), 0.0, 0.0, 0.0)]
    rows = [[Row(10 * file + i, "a", float(i), "", emb) for i, emb in enumerate(vectors)] for file in range(5)]
    table.commit({("a", f"f{number}"): own for number, own in enumerate(rows)})
    reports = []
    for most in (0, 1 << 20):
        monkeypatch.setattr(slices, "_TOGETHER_BYTES", most)
        with hv.open(str(table.path), column="emb") as opened:
            found = opened.search([0.0] * 4, 3, metric="l2", columns=["id"], filter="price < 5")
        assert found.column("id").to_pylist() == [0, 10, 20]
        report = found.report
        reports.append((report.rows_seen, report.filtered, report.nulls, report.invalid, report.slices))
    assert reports[0] == reports[1]
    assert reports[0][0] == 15


def test_files_are_grouped_by_their_own_bytes_and_not_by_those_of_their_index(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path / "t")
    table.commit({("a", f"f{number}"): rows_of(50, first=50 * number) for number in range(4)})
    plan = found_in(table.path, [0.0] * 4, 3, metric="l2").plan
    size = plan.slices[0].file_slice.size
    small = ManifestEntry(FileFingerprint("f", size, 1, ""), rows=50, segment="a.segment", bytes=1)
    for most, groups in ((0, [1] * 4), (2 * size + size // 2, [2, 2]), (5 * size, [4])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slices, "_TOGETHER_BYTES", most)
            for accesses in (plan.slices, [replace(access, access="index", segment=small) for access in plan.slices]):
                found = list(slices._together(list(enumerate(accesses)), is_final=True))
                assert [len(group) for group in found] == groups
    assert [len(group) for group in slices._together(list(enumerate(plan.slices)), is_final=False)] == [1] * 4
