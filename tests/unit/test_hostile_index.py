"""Models, segments and manifests of an index that a stranger wrote: never wrong memory, never much of it, a scan instead."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hostile import RAW_BODIES, body_of, changed, hostile_values, newest_of, places_in, write_body
from support.indexed import fingerprint, segment_of, vectors

import hudi_vector as hv
from hudi_vector.errors import DataFileError, HudiVectorError
from hudi_vector.index import files
from hudi_vector.index.kinds.graph import GraphSegment, GraphView
from hudi_vector.index.kinds.graph_arrays import GraphArrays, new_index
from hudi_vector.index.kinds.joined import joined_view
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.side_arrays import pack, unpack
from hudi_vector.storage import StorageOptions, open_storage

ROWS = vectors("normal", 400, 8, "float", 1)
QUERIES = vectors("normal", 20, 8, "float", 2)
STORAGE = open_storage("file:///", StorageOptions())


def built(metric: str, bits: int, count: int = 400) -> tuple[Any, Any, Any]:
    """A model, faiss's own index over the rows, and the segment that is made of them."""
    model = train_model(ROWS, kind="hnsw", metric=metric, element="float", num_bits=bits)
    segment = segment_of(model, ROWS[:count])
    held = ROWS[:count] / np.linalg.norm(ROWS[:count], axis=1)[:, None] if metric == "cosine" else ROWS[:count]
    index = new_index(model)
    index.hnsw.efConstruction = 100
    index.train(held.astype("f4"))
    index.add(held.astype("f4"))
    return model, index, segment


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot_product"])
def test_a_graph_made_of_arrays_answers_as_the_one_they_were_taken_from(metric: str, bits: int) -> None:
    model, index, _ = built(metric, bits)
    old = GraphArrays.of_bytes(model, faiss.serialize_index(index))
    arrays = GraphArrays.of_index(index)
    assert old == arrays, "what was written before is taken apart into the same arrays"
    arrays.require_sense(model, len(ROWS))
    again, queries = arrays.opened(model), np.ascontiguousarray(QUERIES, np.float32)
    for effort in (10, 64, 400):
        asked = faiss.SearchParametersHNSW(efSearch=effort)
        for mine, theirs in zip(
            again.search(queries, 10, params=asked), index.search(queries, 10, params=asked), strict=True
        ):
            assert np.array_equal(mine, theirs)
    for mine, theirs in zip(again.storage.search(queries, 10), index.storage.search(queries, 10), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_segment_of_before_is_read(tmp_path: Path) -> None:
    model, _, segment = built("l2", 8)
    index = segment.graph.opened(model)
    folder = f"file://{tmp_path}"
    header = {key: getattr(model, key) for key in ("model_id", "kind", "metric", "dimension", "element")}
    header |= {"file": dataclasses.asdict(segment.file), "rows": segment.rows, "clipped": 0}
    arrays = {"position": segment.position, "graph": faiss.serialize_index(index), "always": segment.always}
    name = files.segment_name(segment.file, model.model_id)
    STORAGE.publish(files.segment_uri(folder, name), pack("segment", header, arrays))
    loaded = files.load_segment(STORAGE, folder, name, model, fingerprint())
    assert isinstance(loaded, GraphSegment)
    assert loaded.graph == segment.graph
    view, same = GraphView.join(model, [loaded]), GraphView.join(model, [segment])
    one, other = (each.candidates(QUERIES, 5, certain=False) for each in (view, same))
    assert np.array_equal(one.position, other.position)


NUMBERS = (-(1 << 31), -1000, -2, -1, 0, 1, 7, 8, 9, 255, 399, 400, 401, 1 << 20, (1 << 31) - 1)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_graph_that_a_stranger_changed_is_refused_or_harmless(data: st.DataObject) -> None:
    """Whatever passes the checks is searched: a place outside of the graph's memory would end this process."""
    model, _, segment = _BUILT
    arrays = dict(vars(segment.graph))
    for _ in range(data.draw(st.integers(1, 3), "changes")):
        name = data.draw(st.sampled_from(list(arrays)), "array")
        array = arrays[name].copy()
        way = data.draw(st.sampled_from(["value", "value", "value", "cut", "more", "type", "swap"]), "way")
        if way == "value" and len(array):
            value = data.draw(st.sampled_from([*NUMBERS, float("nan"), float("inf"), 1e38]), "value")
            if array.dtype.kind != "f":
                info = np.iinfo(array.dtype)
                value = int(np.clip(np.nan_to_num(value), info.min, info.max))
            array[data.draw(st.integers(0, len(array) - 1), "at")] = value
        elif way == "cut":
            array = array[: data.draw(st.integers(0, len(array)), "to")]
        elif way == "more":
            array = np.concatenate([array, array[:1]])
        elif way == "type":
            array = _cast(array, data)
        elif len(array) > 1:
            array = array[::-1].copy()
        arrays[name] = array
    changed_graph = GraphArrays(**arrays)
    try:
        changed_graph.require_sense(model, len(segment.position))
    except ValueError:
        return
    found = changed_graph.opened(model).search(np.ascontiguousarray(QUERIES, np.float32), 10)[1]
    assert found.max() < len(segment.position)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_bytes_of_before_that_a_stranger_changed_are_refused_or_harmless(data: st.DataObject) -> None:
    model, index, segment = _BUILT
    content = bytearray(faiss.serialize_index(index).tobytes())
    for _ in range(data.draw(st.integers(1, 4), "changes")):
        # Lengths and numbers stand at the beginning, and between the arrays.
        at = data.draw(st.one_of(st.integers(0, 400), st.integers(0, len(content) - 9)), "at")
        content[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8), "bytes")
    content = content[: data.draw(st.sampled_from([len(content)] * 3 + [0, 3, 100, 5000]), "length")]
    try:
        graph = GraphArrays.of_bytes(model, np.frombuffer(bytes(content), np.uint8))
        graph.require_sense(model, len(segment.position))
    except ValueError:
        return
    found = graph.opened(model).search(np.ascontiguousarray(QUERIES, np.float32), 10)[1]
    assert found.max() < len(segment.position)


_BUILT = built("l2", 8)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_segment_or_model_that_a_stranger_changed_is_damaged_or_joins(
    kind: str, data: st.DataObject, tmp_path_factory: Any
) -> None:
    folder, model, name = _saved(kind, tmp_path_factory)
    is_model = data.draw(st.booleans(), "model")
    uri = files.model_uri(folder, model.model_id) if is_model else files.segment_uri(folder, name)
    path = Path(uri.removeprefix("file://"))
    whole, what = path.read_bytes(), "model" if is_model else "segment"
    header, arrays = unpack(what, STORAGE.open(uri, mapped=False), uri)
    header = {key: value for key, value in header.items() if key not in ("magic", "format_version", "what")}
    arrays = {key: array.copy() for key, array in arrays.items()}
    if data.draw(st.booleans(), "header"):
        at = data.draw(st.sampled_from(list(places_in(header))), "place")
        value = data.draw(st.sampled_from(_PLAIN_VALUES), "value")
        header = changed(header, at, value, drop=data.draw(st.booleans(), "drop"))
    else:
        _change(arrays, data)
    try:
        path.write_bytes(pack(what, header, arrays))
        loaded = files.load_model(STORAGE, folder, model.model_id)
        content = files.segment_content(STORAGE, folder, name)
        shapes = None if kind == "hnsw" else [files.segment_shape(folder, name, loaded, content)]
        segment = files.load_segment(STORAGE, folder, name, loaded, fingerprint(), content)
        view = joined_view(loaded, [segment], shapes)
        for certain in (True, False):
            found = view.candidates(QUERIES[:3], 5, certain=certain)
            assert found.position.max(initial=0) < max(segment.rows, 1)
    except HudiVectorError:
        pass
    finally:
        path.write_bytes(whole)


_PLAIN_VALUES = [
    "", "..", "x", "ivf_flat", "cosine", "int8", 0, -1, 1, 2, 3, 4, 16, 1 << 40, 1 << 70, 0.5, True, None, [], {}, [1], {"a": 1},
]  # fmt: skip


def _cast(array: Any, data: st.DataObject) -> Any:
    with np.errstate(invalid="ignore"):
        return array.astype(data.draw(st.sampled_from(["f8", "i8", "u1", "i4", "f4"]), "dtype"))


def _change(arrays: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(arrays)), "array")
    array = arrays[name]
    way = data.draw(st.sampled_from(["value", "value", "cut", "more", "type", "gone", "reversed"]), "way")
    if way == "value" and len(array):
        value = data.draw(st.sampled_from(NUMBERS), "value")
        if array.dtype.kind != "f":
            info = np.iinfo(array.dtype)
            value = int(np.clip(value, info.min, info.max))
        array[data.draw(st.integers(0, len(array) - 1), "at")] = value
    elif way == "cut":
        arrays[name] = array[: len(array) // 2]
    elif way == "more":
        arrays[name] = np.concatenate([array, array])
    elif way == "type":
        arrays[name] = _cast(array, data)
    elif way == "gone":
        del arrays[name]
    else:
        arrays[name] = array[::-1].copy()


_SAVED: dict[str, Any] = {}


def _saved(kind: str, tmp_path_factory: Any) -> tuple[str, Any, str]:
    if kind not in _SAVED:
        folder = f"file://{tmp_path_factory.mktemp(kind)}"
        model = train_model(ROWS, kind=kind, metric="l2", element="float")
        files.save_model(STORAGE, folder, model)
        _SAVED[kind] = folder, model, files.save_segment(STORAGE, folder, model, segment_of(model, ROWS))[0]
    return _SAVED[kind]


@pytest.mark.parametrize("wrong", [[0, 5, 3, 400], [0, 0, 0, 0], [0, 500, 500, 500], [-1, 5, 6, 400], [4, 5, 6, 400]])
def test_offsets_that_contradict_each_other_are_a_damaged_segment(tmp_path: Path, wrong: list[int]) -> None:
    folder = f"file://{tmp_path}"
    model = train_model(ROWS, kind="ivf_sq8", metric="l2", element="float", num_partitions=3)
    segment = segment_of(model, ROWS)
    other = dataclasses.replace(segment, offsets=np.array(wrong, np.int32))
    name, _ = files.save_segment(STORAGE, folder, model, other)
    with pytest.raises(DataFileError, match="does not fit its model: its offsets contradict each other"):
        files.load_segment(STORAGE, folder, name, model, fingerprint())


class Place:
    """Files with an index beside them, and something precious beside that."""

    def __init__(self, root: Path) -> None:
        self.root, self.victim = root, root / "victim"
        (root / "data").mkdir()
        self.files = [str(root / "data" / f"{number}.parquet") for number in range(2)]
        for number, path in enumerate(self.files):
            values = pa.FixedSizeListArray.from_arrays(pa.array(ROWS[number * 200 : number * 200 + 200].ravel()), 8)
            pq.write_table(pa.table({"id": range(number * 200, number * 200 + 200), "emb": values}), path)
        (self.victim / "deep").mkdir(parents=True)
        for name in ("x.arrow", "deep/ledger.arrow"):
            (self.victim / name).write_bytes(b"precious")
        self.named = {"files": self.files, "column": "emb", "directory": str(root / "indexes")}
        hv.index.build_if_missing(None, metric="l2", kind="ivf_sq8", **self.named)

    def manifest(self) -> Path:
        return newest_of(self.root / "indexes", "index-manifest")

    def precious(self) -> dict[str, bytes]:
        own = self.root / "indexes"
        return {
            str(path): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not path.is_relative_to(own)
        }

    def answers(self) -> list[list[int]]:
        with hv.open(
            column="emb", files=self.files, index_directory=self.named["directory"],
            options={"hoodie.vector.cache.max.bytes": "0"},
        ) as opened:  # fmt: skip
            return [
                opened.search(query, 5, metric="l2", columns=["id"]).table["id"].to_pylist() for query in QUERIES[:3]
            ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: Any) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


def acted(place: Place, expected: list[list[int]], what: str) -> None:
    """Every act upon the index: a sentence or an answer, the right one, and nothing else is touched."""
    before = place.precious()
    named = {"metric": "l2", "kind": "ivf_sq8", **place.named}
    with suppress(HudiVectorError):
        assert place.answers() == expected, what
    for act in (hv.index.describe, hv.index.verify, hv.index.compact, hv.index.refresh):
        with suppress(HudiVectorError):
            act(None, **(named if act is not hv.index.describe else place.named))
        assert place.precious() == before, what


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_manifest_that_a_stranger_changed(data: st.DataObject, place: Place) -> None:
    path = place.manifest()
    whole, body = path.read_bytes(), body_of(path)
    at = data.draw(st.sampled_from(list(places_in(body))), "place")
    value = data.draw(st.sampled_from(hostile_values(place)), "value")
    try:
        expected = _EXPECTED or _EXPECTED.extend(place.answers()) or _EXPECTED
        write_body(path, "index-manifest", changed(body, at, value, drop=data.draw(st.booleans(), "drop")))
        acted(place, expected, f"{at} {value!r:.80}")
    finally:
        _reset(path, whole)


_EXPECTED: list[list[int]] = []


def _reset(path: Path, whole: bytes) -> None:
    """The manifest as it was, and the newest."""
    for other in path.parent.iterdir():
        other.unlink()
    path.write_bytes(whole)


def test_manifests_of_other_bodies(place: Place) -> None:
    path = place.manifest()
    whole, expected = path.read_bytes(), place.answers()
    for raw in RAW_BODIES:
        write_body(path, "index-manifest", raw)
        acted(place, expected, repr(raw[:40]))
        _reset(path, whole)


def test_a_models_name_leads_nowhere_else(place: Place) -> None:
    """A refresh writes the segments of new files, by a name that has the model's in it, over what is there."""
    path = place.manifest()
    whole, body, expected = path.read_bytes(), body_of(path), place.answers()
    for name in ("../../../../victim/x", "../../victim/x", str(place.victim / "x")):
        write_body(path, "index-manifest", {**body, "model_id": name, "entries": []})
        acted(place, expected, name)
        _reset(path, whole)
    assert json.loads(whole.partition(b"\n")[2])["model_id"] == body["model_id"]
