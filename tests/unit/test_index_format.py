"""docs/reference/index-format.md is enough to read an index: here it is read with pyarrow, numpy and json alone."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.indexed import segment_of, vectors

from hudi_vector.errors import DataFileError
from hudi_vector.index import files
from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.locations import in_table
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, publish_manifest
from hudi_vector.read.logs.key_hashes import KeyHashes, hashed
from hudi_vector.storage import StorageOptions, open_storage


def read_arrow(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    text = table.schema.metadata[b"hudi_vector_index"]
    arrays = {name: np.asarray(table[name][0].values) for name in table.schema.names}
    digest = hashlib.sha256(text)
    for name, array in arrays.items():
        digest.update(f"\n{name} {array.dtype.str} {len(array)}\n".encode() + array.tobytes())
    assert digest.hexdigest().encode() == table.schema.metadata[b"sha256"]
    return json.loads(text), arrays


def by_codebook(about: dict[str, Any], lists: dict[str, Any], codes: Any) -> Any:
    """What codes of parts stand for, from the list's centroid on."""
    parts, bits = about["num_sub_vectors"], about["num_bits"]
    book, width = lists["codebook"].reshape(parts, 2**bits, -1), (parts * bits + 7) // 8
    numbers = [
        [int.from_bytes(row.tobytes(), "little") >> (part * bits) & (2**bits - 1) for part in range(parts)]
        for row in codes.reshape(-1, width)
    ]
    return np.array([np.concatenate([book[part, n] for part, n in enumerate(row)]) for row in numbers])


def by_bits(about: dict[str, Any], codes: Any) -> tuple[Any, Any]:
    """What codes of bits stand for, from the list's centroid on, and how far that is off."""
    dimension, bits = about["dimension"], about["num_bits"]
    codes = codes.reshape(-1, 3 + -(-dimension * bits // 8))
    length = np.array([int.from_bytes(row[:2].tobytes(), "little") << 15 for row in codes], np.uint32).view("f4")
    cosine = 1 - (codes[:, 2] / 255) ** 2
    numbers = [int.from_bytes(row[3:].tobytes(), "little") for row in codes]
    levels = [[number >> (place * bits) & (2**bits - 1) for place in range(dimension)] for number in numbers]
    grid = 2.0 * np.array(levels) - (2**bits - 1)
    gain = length / (cosine * np.linalg.norm(grid, axis=1))
    return grid * gain[:, None], length * np.sqrt(1 / cosine**2 - 1 + 2.0**-16)


@pytest.mark.parametrize(
    ("kind", "bits"),
    [("ivf_sq8", None), ("ivf_flat", None), ("ivf_pq", None), ("ivf_pq", 4), ("ivf_rabitq", 1), ("ivf_rabitq", 4)],
)
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot_product"])
def test_an_index_is_read_by_its_description(tmp_path: Path, kind: str, metric: str, bits: int | None) -> None:
    values = vectors("drifted", 300, 6, "float", 4)
    values[[5, 17]] = 0
    storage = open_storage("file:///", StorageOptions())
    folder = in_table(f"file://{tmp_path}", "a b.c").place(metric, kind, {}).folder
    model = train_model(values[:150], kind=kind, metric=metric, element="float", num_bits=bits)
    segment = segment_of(model, values, np.arange(300) % 10 != 0)
    files.save_model(storage, folder, model)
    name, size = files.save_segment(storage, folder, model, segment)
    entry = ManifestEntry(segment.file, 300, name, size)
    publish_manifest(storage, folder, IndexManifest.of("a b.c", model, {}, (entry,)))

    place = tmp_path / ".hoodie" / "vector_index" / "v1" / "a%20b.c" / f"{metric}-{kind}"
    head, _, body = max((place / "manifests").iterdir()).read_bytes().partition(b"\n")
    assert head == f"HUDI-VECTOR index-manifest 1 {hashlib.sha256(body).hexdigest()}".encode()
    manifest = json.loads(body)
    assert manifest["manifest_version"] == 1
    (listed,) = manifest["entries"]
    assert listed["bytes"] == (place / "segments" / listed["segment"]).stat().st_size

    about_model, lists = read_arrow(place / "models" / f"{manifest['model_id']}.arrow")
    about, found = read_arrow(place / "segments" / listed["segment"])
    assert about["magic"] == about_model["magic"] == "HUDI-VECTOR-INDEX"
    assert (about_model["what"], about["what"], about["rows"], about["file"]) == (
        "model",
        "segment",
        300,
        listed["file"],
    )
    dimension = about["dimension"]
    centroids, codes = lists["centroids"].reshape(-1, dimension), found["codes"].reshape(len(found["position"]), -1)
    label = np.repeat(np.arange(about_model["lists"]), np.diff(found["offsets"]))
    offset = codes * lists["scale"].astype(np.float64) if kind == "ivf_sq8" else codes.astype(np.float64)
    if kind == "ivf_pq":
        offset = by_codebook(about_model, lists, found["codes"]) + centroids[label]
    if kind == "ivf_rabitq":
        signs = np.unpackbits(np.frombuffer(hashlib.shake_128(b"hudi_vector rotation 6").digest(3), np.uint8))
        hadamard = np.kron([[1, 1], [1, -1]], [[1, 1], [1, -1]]) / 2
        offset, error = by_bits(about_model, found["codes"])
        offset = offset + centroids[label]
        assert not {"square", "error"} & set(found)
        found["square"], found["error"] = (offset**2).sum(axis=1), error * (1 + 1e-5)
    decoded = offset + lists["low"] if kind == "ivf_sq8" else offset
    true = values[found["position"]].astype(np.float64)
    if metric == "cosine":
        true /= np.linalg.norm(true, axis=1)[:, None]
    if kind == "ivf_rabitq":
        for number, signed in enumerate(signs.reshape(4, 6) * 2.0 - 1):
            true = true * signed
            true[:, slice(4) if number % 2 == 0 else slice(2, 6)] @= hadamard
    assert (np.linalg.norm(true - decoded, axis=1) <= found["error"]).all()
    assert (np.linalg.norm(true - centroids[label], axis=1) <= found["radius"][label]).all()
    assert np.allclose((offset**2).sum(axis=1), found["square"], rtol=1e-5)
    always = [5, 17] if metric == "cosine" else []
    assert found["always"].tolist() == always
    expected = [i for i in range(300) if i % 10 and i not in always]
    assert sorted(found["position"].tolist()) == expected
    if kind == "ivf_sq8" and metric == "l2":
        assert about["clipped"] > 100
        assert found["error"][true.max(axis=1) > 20].min() > found["error"].min()


def walked(found: dict[str, np.ndarray[Any, Any]], dimension: int) -> tuple[list[list[int]], np.ndarray[Any, Any]]:
    """The neighbours of each node in the lowest layer, and what its code stands for."""
    sizes = 32 + 16 * (found["level"].astype(int) - 1)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    assert len(found["neighbour"]) == starts[-1]
    near = [[int(n) for n in found["neighbour"][start : start + 32] if n >= 0] for start in starts[:-1]]
    lowest, width = found["trained"][:dimension].astype(float), found["trained"][dimension:].astype(float)
    return near, lowest + width * (found["code"].reshape(-1, dimension) + 0.5) / 255


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot_product"])
def test_a_graph_is_read_by_its_description(tmp_path: Path, metric: str) -> None:
    values = vectors("normal", 300, 6, "float", 4)
    values[5] = 0
    storage = open_storage("file:///", StorageOptions())
    model = train_model(values, kind="hnsw", metric=metric, element="float")
    segment = segment_of(model, values, np.arange(300) % 10 != 0)
    files.save_model(storage, f"file://{tmp_path}", model)
    name, _ = files.save_segment(storage, f"file://{tmp_path}", model, segment)
    about_model, arrays = read_arrow(tmp_path / "models" / f"{model.model_id}.arrow")
    assert (about_model["lists"], about_model["num_bits"], len(arrays["centroids"])) == (0, 8, 0)
    about, found = read_arrow(tmp_path / "segments" / name)
    assert (about["kind"], about["rows"], about["clipped"]) == ("hnsw", 300, 0)
    nodes, level, dimension = len(found["position"]), found["level"].astype(int), 6
    assert (len(level), level.min() >= 1, int(level[found["entry"][0]])) == (nodes, True, int(level.max()))
    near, decoded = walked(found, dimension)
    unit = values[17] / np.linalg.norm(values[17]) if metric == "cosine" else values[17]
    true = values[found["position"]].astype(np.float64)
    true /= np.linalg.norm(true, axis=1)[:, None] if metric == "cosine" else 1
    assert (np.abs(decoded - true) <= found["trained"][dimension:] / 255).all()
    ranks = -decoded @ unit if metric == "dot_product" else ((decoded - unit) ** 2).sum(axis=1)
    at = best = int(found["entry"][0])
    seen, waiting = {at}, [at]
    while waiting:  # from neighbour to neighbour, the nearest 40 in view
        at = min(waiting, key=lambda node: ranks[node])
        waiting.remove(at)
        best = min(best, at, key=lambda node: ranks[node])
        waiting += [node for node in near[at] if node not in seen]
        seen.update(near[at])
        waiting = sorted(waiting, key=lambda node: ranks[node])[:40]
    assert best == np.argmin(ranks)
    if metric != "dot_product":
        assert found["position"][best] == 17
    assert found["always"].tolist() == ([5] if metric == "cosine" else [])


@pytest.mark.parametrize("kind", ["ivf_sq8", "hnsw"])
def test_hashes_of_keys_are_read_by_their_description_and_alone(tmp_path: Path, kind: str) -> None:
    values = vectors("normal", 300, 6, "float", 4)
    keys = [f"schlüssel {number % 290}" for number in range(300)]
    storage, folder = open_storage("file:///", StorageOptions()), f"file://{tmp_path}"
    model = train_model(values, kind=kind, metric="l2", element="float")
    segment = segment_of(model, values, np.arange(300) % 10 != 0)
    name, size = files.save_segment(storage, folder, model, segment, KeyHashes.of(hashed(pa.array(keys))))
    path = tmp_path / "segments" / name
    about, found = read_arrow(path)
    told = sorted(
        (hashlib.blake2b(key.encode(), digest_size=8).digest()[::-1].hex(), row) for row, key in enumerate(keys)
    )
    assert [f"{one:016x}" for one in found["key_hash"].tolist()] == [one for one, _ in told]
    assert found["key_row"].tolist() == [row for _, row in told]
    assert (found["key_hash"].dtype, found["key_row"].dtype, about["rows"]) == (np.uint64, np.uint32, 300)
    schema, text = pa.ipc.open_file(str(path)).schema, json.dumps(about, sort_keys=True).encode()
    for column in ("key_hash", "key_row"):
        line = f"\n{column} {found[column].dtype.str} 300\n".encode()
        own = hashlib.sha256(text + line + found[column].tobytes()).hexdigest()
        assert schema.field(column).metadata == {b"sha256": own.encode()}

    content = path.read_bytes()
    array = "code" if kind == "hnsw" else "codes"
    for damaged, is_read in ((found[array], True), (found["key_hash"], False), (found["key_row"], False)):
        at = content.index(damaged.tobytes()) + 40
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(DataFileError, match="its content does not match its checksum"):
            files.load_segment(storage, folder, name, model, segment.file)
        if is_read:
            alone = files.load_segment_keys(storage, folder, name, segment.file)
            assert alone is not None
            assert alone.key_row.tolist() == found["key_row"].tolist()
        else:
            with pytest.raises(DataFileError, match="its content does not match its checksum"):
                files.load_segment_keys(storage, folder, name, segment.file)
    path.write_bytes(content)
    other = replace(segment.file, size=9)
    with pytest.raises(DataFileError, match="with another content than that file has now"):
        files.load_segment_keys(storage, folder, name, other)
    path.unlink()
    fewer = KeyHashes.of(hashed(pa.array(keys[1:])))
    files.save_segment(storage, folder, model, segment, fewer)
    with pytest.raises(DataFileError, match="has not as many hashes of keys as rows"):
        files.load_segment_keys(storage, folder, name, segment.file)
    path.unlink()
    without = files.save_segment(storage, folder, model, segment)[1]
    assert files.load_segment_keys(storage, folder, name, segment.file) is None
    assert 300 * 12 <= size - without < 300 * 12 + 2048
