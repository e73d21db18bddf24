"""Packs: what was packed is found as before, lists are read singly, and damage costs time and no row."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.indexed import fingerprint, segment_of, vectors
from support.written_table import WrittenTable, rows_of

import hudi_vector as hv
from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index import files
from hudi_vector.index.build import Parameters, create_index, refresh_index
from hudi_vector.index.catalog import Index
from hudi_vector.index.kinds.model import IndexModel, train_model
from hudi_vector.index.kinds.view import IndexView
from hudi_vector.index.load import load_key_hashes, load_view
from hudi_vector.index.manifest import (
    IndexManifest,
    ManifestEntry,
    PackPlace,
    manifest_named,
    newest_manifest,
    publish_manifest,
)
from hudi_vector.index.packing import is_to_pack, packed, segments_to_repack
from hudi_vector.index.packs import lists
from hudi_vector.index.packs.stored import head_of, paths_in_pack, read_segments
from hudi_vector.kernels.metrics import exact_distances
from hudi_vector.read.cache import process_cache
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable

OPTIONS = StorageOptions()
STORAGE = open_storage("file:///", OPTIONS)
QUERIES = np.random.default_rng(5).standard_normal((6, 4))


@dataclasses.dataclass(frozen=True)
class Packed:
    """An index in packs, and the segments that were put into them."""

    folder: str
    model: IndexModel
    segments: list[Any]
    manifest: IndexManifest

    def view(self, entries: list[ManifestEntry], **how: Any) -> Any:
        return load_view(self.folder, self.model.model_id, entries, OPTIONS, keep=False, **how)


def packs_of_files(
    folder: Path, rows: list[np.ndarray[Any, Any]], kind: str, metric: str, groups: int = 1, keys: Any = None
) -> Packed:
    """An index over files of these rows, in so many packs."""
    uri, everything = f"file://{folder}", np.concatenate(rows)
    model = train_model(everything, kind=kind, metric=metric, element="float", num_partitions=9)
    files.save_model(STORAGE, uri, model)
    segments = [segment_of(model, part, name=f"f{number}_0_1.parquet") for number, part in enumerate(rows)]
    entries = []
    for segment in segments:
        name, size = files.save_segment(STORAGE, uri, model, segment, keys)
        entries.append(ManifestEntry(segment.file, segment.rows, name, size))
    manifest = IndexManifest.of("emb", model, {}, tuple(entries))
    for group in range(groups):
        names = [entry.segment for entry in manifest.entries[group::groups]]
        manifest = packed(uri, manifest, OPTIONS, map, names)
    shutil.rmtree(folder / "segments")
    return Packed(uri, model, segments, manifest)


def found_in(view: Any, queries: Any, **asked: Any) -> list[tuple[int, int, int]]:
    got = view.candidates(queries, 3, **asked)
    return sorted(zip(got.query.tolist(), got.segment.tolist(), got.position.tolist(), strict=True))


def assert_none_nearer(view: Any, rows: list[Any], queries: Any, metric: str) -> None:
    """No row is nearer than the candidates say that the other rows are."""
    got = view.candidates(queries, 3, certain=False, nprobes=2, candidates=5)
    bases = np.cumsum([0, *map(len, rows)])
    for number, query in enumerate(queries):
        left = np.ones(bases[-1], np.bool_)
        left[(bases[got.segment] + got.position)[got.query == number]] = False
        assert exact_distances(np.concatenate(rows), query, metric)[left].min(initial=np.inf) >= got.unseen[number]


@pytest.fixture(autouse=True, scope="module")
def several_shares() -> Iterator[None]:
    """Lists as small as these are checked and copied by several threads too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "_SHARE_BYTES", 256)
        yield


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_packs_hold_what_their_segments_held(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """In any number of packs, asked for in any order, with dead segments among them, with a filter and without."""
    kind = data.draw(st.sampled_from(["ivf_sq8", "ivf_flat", "ivf_rabitq", "ivf_pq"]), "kind")
    metric = data.draw(st.sampled_from(["l2", "cosine", "dot_product"]), "metric")
    counts = data.draw(st.lists(st.integers(0, 90), min_size=1, max_size=6), "rows")
    rows = [vectors("clustered", count, 8, "float", number) for number, count in enumerate([300, *counts])]
    folder = tmp_path_factory.mktemp("packs")
    made = packs_of_files(folder, rows, kind, metric, data.draw(st.integers(1, 3), "packs"))
    order = data.draw(st.permutations(range(len(rows))), "order")
    order = order[: data.draw(st.integers(1, len(order)), "of these")]
    view = made.view([made.manifest.entries[number] for number in order])
    expected = IndexView.join(made.model, [made.segments[number] for number in order])
    chance = np.random.default_rng(1)
    queries = chance.normal(size=(2, 8)) * 3
    masks = [chance.random(size) < data.draw(st.sampled_from([0.02, 0.5, 1.0])) for size in np.diff(view.bases)]
    for mask in masks[len(order) :]:
        mask[:] = False
    assert np.diff(view.bases)[: len(order)].tolist() == [len(rows[number]) for number in order]
    assert found_in(view, queries, allowed=masks) == found_in(expected, queries, allowed=masks[: len(order)])
    if len(order) == len(rows):
        for asked in ({}, {"certain": False, "nprobes": 1}, {"certain": False, "nprobes": 9, "candidates": 20}):
            again = made.view(list(made.manifest.entries))
            joined = IndexView.join(made.model, made.segments)
            assert found_in(again, queries, **asked) == found_in(joined, queries, **asked)
        # By the lists that were read alone, and once all are there.
        again = made.view(list(made.manifest.entries))
        assert_none_nearer(again, rows, queries, metric)
        again.lists.need(None)
        assert_none_nearer(again, rows, queries, metric)
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_flat", "ivf_rabitq", "ivf_pq"])
def test_segments_come_out_of_a_pack_as_they_went_in(tmp_path: Path, kind: str) -> None:
    rows = [vectors("mixed", count, 8, "float", count) for count in (200, 0, 60)]
    made = packs_of_files(tmp_path, rows, kind, "cosine")
    read = read_segments(STORAGE, made.folder, made.model, made.manifest.entries)
    for entry, segment in zip(made.manifest.entries, made.segments, strict=True):
        out = read[entry.segment]
        assert isinstance(out, tuple)
        assert out[1] is None
        for name in (field.name for field in dataclasses.fields(segment)):
            mine, theirs = getattr(out[0], name), getattr(segment, name)
            if name == "radius":
                assert (mine >= theirs).all()
            elif isinstance(theirs, np.ndarray):
                assert (mine.dtype, mine.tolist()) == (theirs.dtype, theirs.tolist())
            else:
                assert mine == theirs


def test_lists_are_read_when_they_are_needed_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [vectors("clustered", 400, 8, "float", number) for number in range(3)]
    made = packs_of_files(tmp_path, rows, "ivf_sq8", "l2")
    reads: list[int] = []
    real = lists.PackFile.read

    def counted(file: lists.PackFile, begin: int, length: int) -> bytes:
        reads.append(length)
        return real(file, begin, length)

    monkeypatch.setattr(lists.PackFile, "read", counted)
    monkeypatch.setattr(lists, "usual_gap", lambda is_local: 0)
    entries = list(made.manifest.entries)
    view = made.view(entries)
    place = entries[0].pack
    assert place is not None
    assert reads == [place.head]
    near = made.model.centroids[4:5].astype(np.float64)
    for _ in range(2):
        view.candidates(near, 3, certain=False, nprobes=1, candidates=5)
        assert len(reads) == 2
    size = int(np.diff(view.offsets)[4])
    assert reads[1] == size * (8 + 12)
    view.candidates(near, 3, certain=False, nprobes=9)
    assert view.lists.is_whole
    assert sum(reads[1:]) == len(view) * (8 + 12)
    before = len(reads)
    view.candidates(near, 3, certain=True)
    assert len(reads) == before
    assert made.view(entries, whole=True).lists.is_whole


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_pack_is_one_sentence(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    made, content = _damageable(tmp_path_factory)
    entry = made.manifest.entries[0]
    assert entry.pack is not None
    path = Path(made.folder.removeprefix("file://")) / "packs" / entry.pack.name
    changed = bytearray(content)
    way = data.draw(st.sampled_from(["flip", "cut", "more"]), "way")
    if way == "flip":
        changed[data.draw(st.integers(0, len(content) - 1), "at")] ^= data.draw(st.integers(1, 255), "bits")
    elif way == "cut":
        changed = changed[: data.draw(st.integers(0, len(content) - 1), "to")]
    else:
        changed += b"x"
    path.write_bytes(changed)
    read = read_segments(STORAGE, made.folder, made.model, made.manifest.entries)
    problems = [one for one in read.values() if isinstance(one, DataFileError | UnsupportedTableError)]
    if not problems:  # what was changed is no part of what is read: padding, or bytes beyond the pack
        assert way != "cut"
        for entry, segment in zip(made.manifest.entries, made.segments, strict=True):
            one = read[entry.segment]
            assert isinstance(one, tuple)
            assert all(np.array_equal(getattr(one[0], name), getattr(segment, name)) for name in ("codes", "position"))
    assert len(problems) in (0, len(made.manifest.entries))
    assert all("pack" in str(one) and "\n" not in str(one) for one in problems)


_DAMAGEABLE: list[tuple[Packed, bytes]] = []


def _damageable(folders: pytest.TempPathFactory) -> tuple[Packed, bytes]:
    if not _DAMAGEABLE:
        keys = KeyHashes.of(np.random.default_rng(2).integers(0, 1 << 63, 60).astype(np.uint64))
        rows = [vectors("normal", 60, 8, "float", number) for number in range(3)]
        made = packs_of_files(folders.mktemp("damaged"), rows, "ivf_sq8", "l2", keys=keys)
        entry = made.manifest.entries[0]
        assert entry.pack is not None
        _DAMAGEABLE.append((made, STORAGE.whole(files.pack_uri(made.folder, entry.pack.name)).to_pybytes()))
    return _DAMAGEABLE[0]


def test_a_pack_of_other_files_is_refused(tmp_path: Path) -> None:
    made = packs_of_files(tmp_path, [vectors("normal", 60, 8, "float", n) for n in range(2)], "ivf_sq8", "l2")
    first, second = made.manifest.entries
    swapped = [replace(first, pack=second.pack), replace(second, pack=first.pack)]
    beyond = [replace(first, pack=replace(first.pack, number=7))]  # type: ignore[type-var]
    for entries in (swapped, beyond):
        with pytest.raises(DataFileError, match=r"is not of '\S+' as the index's manifest says"):
            made.view(entries)
    other = train_model(vectors("normal", 90, 8, "float", 8), kind="ivf_sq8", metric="l2", element="float")
    assert first.pack is not None
    with pytest.raises(DataFileError, match=f"is of the model {made.model.model_id}, not of {other.model_id}"):
        head_of(STORAGE, made.folder, first.pack, other)


@pytest.mark.parametrize("name", ["../../x.pack", "0123456789abcdef-../x.pack", "0123456789abcdef-a.arrow", ""])
def test_a_pack_that_would_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    made = packs_of_files(tmp_path, [vectors("normal", 60, 8, "float", 1)], "ivf_sq8", "l2")
    with pytest.raises(DataFileError, match="is not the name of a pack"):
        files.pack_uri(made.folder, name)
    wrong = replace(made.manifest.entries[0], pack=PackPlace(name, 10, 10, 0))
    published = publish_manifest(STORAGE, made.folder, replace(made.manifest, entries=(wrong,)))
    with pytest.raises(DataFileError, match="not the name of a pack"):
        manifest_named(STORAGE, made.folder, published.name)


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    written = WrittenTable(tmp_path / "t")
    rows = rows_of(300, "a", 1)
    written.commit({("a", "f1"): rows[:100], ("a", "f2"): rows[100:200], ("a", "f3"): rows[200:]})
    return written


def place_of(table: WrittenTable) -> tuple[Snapshot, ScanSpec]:
    snapshot = NativeTable(Source(f"file://{table.path}", "t")).snapshot()
    return snapshot, ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, table.element))


def built(table: WrittenTable, names: int | None = None) -> Index:
    """An index in one pack, or in two of which the first has so many segments."""
    return in_packs(create_index(*place_of(table), Parameters(metric="l2")), names)


def in_packs(index: Index, first: int | None = None) -> Index:
    loose = [entry.segment for entry in index.manifest.entries if entry.pack is None]
    manifest = packed(index.folder, index.manifest, OPTIONS, map, loose[:first])
    if first is not None:
        manifest = packed(index.folder, manifest, OPTIONS, map, loose[first:])
    published = publish_manifest(STORAGE, index.folder, manifest)
    shutil.rmtree(index.folder.removeprefix("file://") + "/segments")
    return replace(index, manifest=published)


def pack_paths(table: WrittenTable) -> list[Path]:
    return sorted(table.path.glob(".hoodie/vector_index/v1/emb/l2-ivf_sq8/packs/*"))


def assert_right(table: WrittenTable, slices: dict[str, int], **asked: Any) -> None:
    # Vectors in memory would answer in place of the index.
    with hv.open(str(table.path), column="emb", options={"hoodie.vector.cache.max.bytes": "0"}) as t:
        for query in QUERIES:
            found = t.search(query, 7, metric="l2", columns=["id"], **asked)
            assert found.table.equals(t.search(query, 7, metric="l2", columns=["id"], mode="exact").table)
            assert found.report.slices == slices


@pytest.mark.parametrize("part", ["head", "lists"])
@pytest.mark.parametrize("memory", ["0", "64m"])
def test_a_damaged_pack_costs_time_and_no_row(
    table: WrittenTable, part: str, memory: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it is seen in the middle of a search, when a list is read."""
    index = built(table, 2)
    whole = index.manifest.entries[0].pack
    assert whole is not None
    path = next(path for path in pack_paths(table) if path.name == whole.name)
    content = bytearray(path.read_bytes())
    content[{"head": whole.head // 2, "lists": len(content) - 1300}[part]] ^= 1
    path.write_bytes(content)
    with (
        caplog.at_level(logging.WARNING, "hudi_vector.search"),
        hv.open(str(table.path), column="emb", options={"hoodie.vector.cache.max.bytes": memory}) as t,
    ):
        for query in QUERIES:
            found = t.search(query, 7, metric="l2", columns=["id"])
            exact = t.search(query, 7, metric="l2", columns=["id"], mode="exact")
            assert found.table.equals(exact.table)
    assert "a segment of an index cannot be read, its file is scanned" in caplog.text
    problems = hv.index.verify(None, str(table.path), "emb")
    assert {problem.segment for problem in problems} == {entry.segment for entry in index.manifest.entries[:2]}
    mended = refresh_index(*place_of(table), index, deep=True)
    assert mended.manifest.generation > index.manifest.generation
    process_cache().clear()
    assert len(mended.manifest.entries) == 3


def test_a_pack_that_is_gone_is_made_again(table: WrittenTable) -> None:
    index = built(table)
    pack_paths(table)[0].unlink()
    assert_right(table, {"index": 3})
    again = refresh_index(*place_of(table), index)
    assert again.manifest.generation == index.manifest.generation + 1
    assert hv.index.verify(None, str(table.path), "emb") == []
    assert refresh_index(*place_of(table), again) is again


def test_a_build_that_was_killed_goes_on_with_its_packs(table: WrittenTable) -> None:
    made = create_index(*place_of(table), Parameters(metric="l2"))
    names = [entry.segment for entry in made.manifest.entries]
    first = packed(made.folder, made.manifest, OPTIONS, map, names)
    (path,) = pack_paths(table)
    at, content = path.stat().st_mtime_ns, path.read_bytes()
    assert packed(made.folder, made.manifest, OPTIONS, map, names) == first
    assert path.stat().st_mtime_ns == at, "a whole pack is not written again"
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert packed(made.folder, made.manifest, OPTIONS, map, names) == first
    assert path.read_bytes() == content


def test_compaction_puts_small_packs_together(table: WrittenTable) -> None:
    index = built(table, 2)
    assert len(pack_paths(table)) == 2
    assert len(segments_to_repack(index, OPTIONS)) == 3
    hv.index.compact(None, str(table.path), "emb", grace="0s")
    (path,) = pack_paths(table)
    info = STORAGE.info(f"file://{path}")
    assert info is not None
    newest = newest_manifest(STORAGE, index.folder)
    assert newest is not None
    assert sorted(paths_in_pack(STORAGE, info)) == sorted(entry.file.path for entry in newest.entries)
    assert segments_to_repack(replace(index, manifest=newest), OPTIONS) == []
    assert_right(table, {"index": 3})


def test_compaction_leaves_no_code_of_a_file_that_is_gone(table: WrittenTable) -> None:
    index = built(table)
    gone = next(table.path.glob("a/f2*.parquet"))
    table.commit({("a", "f4"): rows_of(40, "a", 9, first=900)})
    gone.unlink()
    refresh_index(*place_of(table), index)
    hv.index.compact(None, str(table.path), "emb", grace="0s")
    held = [
        path
        for pack in pack_paths(table)
        if (info := STORAGE.info(f"file://{pack}")) is not None
        for path in paths_in_pack(STORAGE, info)
    ]
    assert held
    assert not [path for path in held if "f2" in path]
    assert_right(table, {"index": 3})  # the new segment has a separate file


def test_hashes_of_keys_come_from_a_pack(tmp_path: Path) -> None:
    keys = KeyHashes.of(np.random.default_rng(2).integers(0, 1 << 63, 60).astype(np.uint64))
    made = packs_of_files(
        tmp_path, [vectors("normal", 60, 8, "float", n) for n in range(3)], "ivf_sq8", "l2", keys=keys
    )
    for keep in (False, True):
        for entry in made.manifest.entries:
            found = load_key_hashes(made.folder, entry, OPTIONS, keep)
            assert found is not None
            assert found.key_hash.tolist() == keys.key_hash.tolist()
            assert found.key_row.tolist() == keys.key_row.tolist()


def test_only_segments_of_lists_on_an_object_store_are_packed() -> None:
    entry = ManifestEntry(fingerprint(), 1, "a.arrow", 1)
    assert is_to_pack("s3://bucket/index", "ivf_sq8", entry)
    assert not is_to_pack("s3://bucket/index", "hnsw", entry)
    assert not is_to_pack("file:///index", "ivf_sq8", entry)
    place = PackPlace("0123456789abcdef-aa.pack", 9, 9, 0)
    assert not is_to_pack("s3://bucket/index", "ivf_sq8", replace(entry, pack=place))
