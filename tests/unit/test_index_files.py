"""Models, segments and manifests as files: what was saved is loaded, what is damaged or another's is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.indexed import fingerprint, segment_of, vectors

from hudi_vector.errors import DataFileError, InvalidArgumentError, UnsupportedTableError
from hudi_vector.index import files, manifest
from hudi_vector.index.kinds.joined import joined_view
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.model import IndexModel, default_partitions, train_model
from hudi_vector.index.locations import in_table
from hudi_vector.index.side_arrays import pack
from hudi_vector.storage import FileInfo, Storage, StorageOptions, join, open_storage
from hudi_vector.storage.side_files import publish, seal

ROWS = vectors("normal", 200, 8, "float", 1)


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Storage, str]]:
    uri = f"file://{tmp_path}" if request.param == "file" else f"memory:///{tmp_path.name}"
    storage = open_storage(uri, StorageOptions())
    yield storage, in_table(uri, "emb").place("l2", "ivf_sq8", {}).folder
    for info in storage.list_files(uri, recursive=True):
        storage.delete(info.uri)


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> IndexModel:
    return train_model(ROWS, kind=request.param, metric="l2", element="float")


def same(one: Any, other: Any) -> bool:
    return all(
        np.array_equal(mine, theirs) and mine.dtype == theirs.dtype if isinstance(mine, np.ndarray) else mine == theirs
        for mine, theirs in ((getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    )


def test_models_and_segments_are_loaded_as_they_were_saved(place: Any, model: IndexModel) -> None:
    storage, folder = place
    valid = np.arange(200) % 7 != 0
    segment = segment_of(model, ROWS, valid)
    files.save_model(storage, folder, model)
    name, size = files.save_segment(storage, folder, model, segment)
    loaded = files.load_model(storage, folder, model.model_id)
    assert same(loaded, model)
    again = files.load_segment(storage, folder, name, loaded, fingerprint())
    assert same(again, segment)
    assert size == storage.info(files.segment_uri(folder, name)).size  # type: ignore[union-attr]
    # Whoever saves the same again leaves what is there.
    assert files.save_segment(storage, folder, model, segment) == (name, size)
    assert sorted(again.position.tolist()) == np.flatnonzero(valid).tolist()


def test_an_empty_file_and_one_without_vectors_have_segments(place: Any, model: IndexModel) -> None:
    storage, folder = place
    for rows in (0, 5):
        segment = segment_of(model, ROWS[:rows], np.zeros(rows, np.bool_), name=f"{rows}.parquet")
        name, _ = files.save_segment(storage, folder, model, segment)
        loaded = files.load_segment(storage, folder, name, model, segment.file)
        assert (len(loaded), loaded.rows) == (0, rows)
        assert len(joined_view(model, [loaded]).candidates(np.ones(8), 3)) == 0


def test_a_segment_of_another_content_or_model_is_refused(place: Any, model: IndexModel) -> None:
    storage, folder = place
    name, _ = files.save_segment(storage, folder, model, segment_of(model, ROWS))
    for change in ({"size": 9}, {"mtime_ns": 9}, {"footer": "cd"}, {"path": "p=2/a_0_1.parquet"}):
        other = dataclasses.replace(fingerprint(), **change)  # type: ignore[arg-type]
        assert files.segment_name(other, model.model_id) != name
        with pytest.raises(DataFileError, match="with another content than that file has now"):
            files.load_segment(storage, folder, name, model, other)
    given = {"num_bits": 4} if model.kind == "hnsw" else {}
    other_model = train_model(ROWS[:50], kind=model.kind, metric="l2", element="float", **given)
    with pytest.raises(DataFileError, match=f"is of the model {model.model_id}, not of {other_model.model_id}"):
        files.load_segment(storage, folder, name, other_model, fingerprint())
    with pytest.raises(InvalidArgumentError, match="is of the model"):
        joined_view(other_model, [segment_of(model, ROWS)])
    with pytest.raises(DataFileError, match="cannot be opened"):
        files.load_segment(storage, folder, "gone.arrow", model, fingerprint())


def test_damage_anywhere_in_a_file_is_seen_and_healed(tmp_path: Path) -> None:
    storage, folder = open_storage("file:///", StorageOptions()), f"file://{tmp_path}"
    model = train_model(ROWS, metric="l2", element="float")
    segment = segment_of(model, ROWS)
    name, size = files.save_segment(storage, folder, model, segment)
    path = tmp_path / "segments" / name
    content = path.read_bytes()
    unnoticed = 0
    for at in range(0, size, 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :])
        try:
            loaded = files.load_segment(storage, folder, name, model, fingerprint())
        except (DataFileError, UnsupportedTableError):
            continue
        # Padding and Arrow's own second copy of the schema hold nothing of the segment.
        assert same(loaded, segment)
        unnoticed += 1
    assert unnoticed < size / 7 / 3
    for cut in (0, 1, size // 2, size - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(DataFileError):
            files.load_segment(storage, folder, name, model, fingerprint())
    files.save_segment(storage, folder, model, segment)
    assert path.read_bytes() == content
    (tmp_path / "models").mkdir()
    path.rename(tmp_path / "models" / "x.arrow")
    with pytest.raises(DataFileError, match="is no model of a vector index"):
        files.load_model(storage, folder, "x")


def test_a_file_of_another_version_is_refused_by_name(place: Any) -> None:
    storage, folder = place
    text = pack("model", {"model_id": "m"}, {"a": np.arange(3)}).replace(b'"format_version": 1', b'"format_version": 7')
    storage.publish(files.model_uri(folder, "m"), text)
    with pytest.raises(UnsupportedTableError, match=r"m\.arrow' has format version 7 and this hudi-vector knows"):
        files.load_model(storage, folder, "m")


def a_manifest(model: IndexModel, segment: Any, **changes: Any) -> manifest.IndexManifest:
    entry = manifest.ManifestEntry(segment.file, segment.rows, files.segment_name(segment.file, model.model_id), 99)
    made = manifest.IndexManifest.of("emb", model, {"num_partitions": None}, (entry,))
    return dataclasses.replace(made, **changes)


def test_readers_take_the_newest_whole_manifest(place: Any, model: IndexModel) -> None:
    storage, folder = place
    segment = segment_of(model, ROWS)
    assert manifest.newest_manifest(storage, folder) is None
    first = manifest.publish_manifest(storage, folder, a_manifest(model, segment))
    setting = manifest.Setting(4, 20, 0.97, 1234)
    second = manifest.publish_manifest(storage, folder, a_manifest(model, segment, calibration=(setting,)))
    assert (first.generation, second.generation) == (1, 2)
    assert first.created_ms > 1_500_000_000_000
    found = manifest.newest_manifest(storage, folder)
    assert found == second
    assert found.entries[0].file == segment.file
    older = dataclasses.asdict(setting)
    del older["k"]  # manifests of the time when only k = 10 was measured
    body = {**dataclasses.asdict(second), "manifest_version": 1, "calibration": [older]}
    del body["generation"], body["name"]
    storage.publish(f"{folder}/manifests/00000002-{'f' * 32}", seal("index-manifest", 1, body))
    assert [one.k for one in manifest.newest_manifest(storage, folder).calibration] == [10]
    storage.delete(f"{folder}/manifests/00000002-{'f' * 32}")
    cut = seal("index-manifest", 1, {"manifest_version": 1})[:-3]
    storage.publish(join(folder, "manifests", f"00000009-{'0' * 32}"), cut)
    assert manifest.newest_manifest(storage, folder) == second
    publish(storage, join(folder, "manifests"), "index-manifest", 2, 10, {"manifest_version": 2})
    with pytest.raises(UnsupportedTableError, match=r"manifests/00000010-\w+' has version 2"):
        manifest.newest_manifest(storage, folder)


def test_two_builders_at_once_leave_a_whole_index(place: Any, model: IndexModel) -> None:
    from concurrent.futures import ThreadPoolExecutor

    storage, folder = place
    segment = segment_of(model, ROWS)

    def build(_: int) -> str:
        files.save_model(storage, folder, model)
        name, _size = files.save_segment(storage, folder, model, segment)
        manifest.publish_manifest(storage, folder, a_manifest(model, segment))
        return name

    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(build, range(8)))
    assert len(names) == 1
    found = manifest.newest_manifest(storage, folder)
    assert found is not None
    assert same(files.load_segment(storage, folder, found.entries[0].segment, model, segment.file), segment)


def test_a_fingerprint_sees_the_footer(tmp_path: Path) -> None:
    storage, table = open_storage("file:///", StorageOptions()), f"file://{tmp_path}"
    prints = []
    for values in ([1, 2], [1, 2], [2, 1]):
        path = tmp_path / "p" / "a.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"a": values}), path)
        prints.append(files.fingerprint_of(storage, table, FileInfo(f"{table}/p/a.parquet", path.stat().st_size, 5)))
    assert prints[0] == prints[1]
    assert prints[0].path == "p/a.parquet"
    path.write_bytes(b"x")
    assert files.fingerprint_of(storage, table, FileInfo(f"{table}/p/a.parquet", 1, 5)) != prints[0]
    with pytest.raises(DataFileError):
        files.fingerprint_of(storage, table, FileInfo(f"{table}/p/gone.parquet", 1, 5))


def test_training_says_what_is_wrong_and_takes_what_is_odd() -> None:
    for wrong, words in (
        ({"kind": "ivf"}, "unknown kind of index 'ivf'"),
        ({"element": "half"}, "unknown element type 'half'"),
        ({"metric": "manhattan"}, "unknown metric"),
        ({"num_partitions": 0}, "num_partitions is 0"),
        ({"max_iters": 0}, "max_iters is 0"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            train_model(ROWS, **{"metric": "l2", "element": "float", **wrong})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="it must be"):
        train_model(ROWS[0], metric="l2", element="float")
    assert [default_partitions(n) for n in (0, 1, 2, 100, 10**6, 10**9)] == [1, 1, 1, 10, 1000, 4096]
    empty = train_model(np.empty((0, 3)), metric="cosine", element="float", rows=10**6)
    assert empty.lists == 1
    strange = np.array([[0, 0], [np.nan, 1], [1e30, 0], [np.inf, 0], [3, 4]])
    assert train_model(strange, metric="cosine", element="double").lists == 2  # 1e30 has a direction
    assert train_model(strange, metric="l2", element="double", num_partitions=9).lists == 2
    assert train_model(ROWS, metric="l2", element="float", rows=10**6).lists == len(ROWS)
    one, other = (train_model(ROWS, metric="l2", element="float", seed=seed) for seed in (0, 1))
    assert one.model_id != other.model_id
    assert one.model_id == train_model(ROWS, metric="L2", element="float").model_id
