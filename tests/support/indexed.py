"""Vectors of many shapes, and indexes over them, for tests of the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.index.kinds.candidates import Candidates
from hudi_vector.index.kinds.joined import joined_view, made_segment
from hudi_vector.index.kinds.kinds import GRAPHS
from hudi_vector.index.kinds.model import IndexModel, train_model
from hudi_vector.index.kinds.segment import FileFingerprint
from hudi_vector.index.side_arrays import pack, unpack
from hudi_vector.kernels.metrics import exact_distances
from hudi_vector.kernels.topk import make_block
from hudi_vector.read.logs.key_hashes import Hashes, KeyHashes

DTYPES = {"float": "<f4", "double": "<f8", "int8": "i1"}
SHAPES = ("clustered", "normal", "constant", "duplicates", "far", "tiny", "huge", "mixed", "zeros", "offset", "drifted")


def vectors(shape: str, rows: int, dimension: int, element: str, seed: int) -> np.ndarray[Any, Any]:
    """Rows of one shape, in the type of the element."""
    chance = np.random.default_rng(seed)
    made = chance.normal(size=(rows, dimension))
    if shape in ("clustered", "drifted"):
        middles = chance.normal(size=(5, dimension)) * 5
        made = made * 0.3 + middles[chance.integers(0, 5, rows)]
    if shape == "drifted":
        made[rows // 2 :] *= 10
    if shape == "constant":
        made[:, : (dimension + 1) // 2] = 3.7
    if shape == "duplicates":
        made = made[chance.integers(0, max(rows // 8, 1), rows)]
    if shape == "zeros":
        made[chance.random(rows) < 0.3] = 0
    if shape == "offset":
        made = made * 1e-3 + 1000.0
    if element == "int8":
        return np.clip(np.rint(made * 20), -128, 127).astype("i1")
    if shape == "far":
        made += 1e4
    if shape == "tiny":
        made *= 1e-14
    if shape == "huge":
        made *= 1e13
    if shape == "mixed":
        made *= 10.0 ** chance.integers(-30, 18, (rows, 1))
    return made.astype(DTYPES[element])


def fingerprint(name: str = "a_0_1.parquet") -> FileFingerprint:
    """Of a file that need not be there."""
    return FileFingerprint(f"p=1/{name}", 1, 2, "ab")


def segment_of(model: IndexModel, values: np.ndarray[Any, Any], valid: Any = None, name: str = "a_0_1.parquet") -> Any:
    """The segment of a file with these rows, some of which may have no vector."""
    positions = np.arange(len(values)) if valid is None else np.flatnonzero(valid)

    def blocks() -> Iterator[Any]:
        for start in range(0, len(positions), 37):
            part = positions[start : start + 37]
            yield make_block(values[part], part)[0]

    return made_segment(model, fingerprint(name), blocks(), len(values))


def view_of(
    files: Sequence[np.ndarray[Any, Any]],
    metric: str,
    kind: str,
    element: str,
    lists: int | None,
    trained_on: int = 0,
    **given: Any,
) -> Any:
    """An index over files, trained on all of their rows or on the first ones."""
    everything = np.concatenate(files)
    sample = everything[:trained_on] if trained_on else everything
    given = given if kind == GRAPHS else {"num_partitions": lists, **given}
    model = train_model(sample, kind=kind, metric=metric, element=element, **given)
    return joined_view(model, [segment_of(model, rows, name=f"f{i}_0_1.parquet") for i, rows in enumerate(files)])


def rows_of(found: Candidates, query: int, starts: Sequence[int]) -> list[int]:
    """The candidates of a query, numbered across the files."""
    chosen = found.query == query
    return sorted((np.asarray(starts)[found.segment[chosen]] + found.position[chosen]).tolist())


def true_rows(values: np.ndarray[Any, Any], query: Any, metric: str, k: int, allowed: Any = None) -> set[int]:
    """The k nearest of the allowed rows, with all whose distance is the k-th."""
    distances = exact_distances(values, np.asarray(query, np.float64), metric)
    if allowed is not None:
        distances = np.where(allowed, distances, np.inf)
    among = len(values) if allowed is None else int(allowed.sum())
    if not among:
        return set()
    limit = np.partition(distances, min(k, among) - 1)[min(k, among) - 1]
    return set(np.flatnonzero((distances <= limit) & np.isfinite(distances)).tolist())


def segment_files(table: Path | str, index: str = "emb/l2-ivf_sq8") -> list[Path]:
    """The segments of an index beside a table."""
    return sorted((Path(table) / ".hoodie/vector_index/v1" / index / "segments").iterdir())


def rewrite_keys(segment: Path, change: Callable[[KeyHashes], KeyHashes | None]) -> None:
    """Write a segment anew, with other hashes of keys, or with none as a segment of old."""
    header, arrays = unpack("segment", pa.BufferReader(segment.read_bytes()), str(segment))
    changed = change(KeyHashes(arrays.pop("key_hash"), arrays.pop("key_row")))
    apart = {} if changed is None else {"key_hash": changed.key_hash, "key_row": changed.key_row}
    segment.write_bytes(pack("segment", header, arrays, apart))


def colliding(keys: KeyHashes) -> KeyHashes:
    """The same under a hash by which a quarter of all keys are alike."""
    hashes = np.empty(len(keys.key_row), np.uint64)
    hashes[keys.key_row] = np.where(keys.key_hash % np.uint64(4) == 0, np.uint64(0), keys.key_hash)
    return KeyHashes.of(hashes)


def quarter_alike(keys: pa.Array) -> Hashes:
    """The hash that `colliding` stands for."""
    whole = [int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") for key in keys.to_pylist()]
    return np.array([one if one % 4 else 0 for one in whole], np.uint64)


def collide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are hashed so from now on, in this process."""
    for room in ("key_hashes", "record_keys"):
        monkeypatch.setattr(f"hudi_vector.read.logs.{room}.hashed", quarter_alike)


def forbid_whole_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search reads all keys of a base file from now on, in this process."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("all keys are read")

    monkeypatch.setattr("hudi_vector.read.logs.touched.keys_of_file", refuse)
