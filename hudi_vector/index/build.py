"""An index made and brought up to date: a sample, a model, a segment for each base file, a manifest over all.

Each step takes a way to go through files, `map` or one that sends them to executors: only names, the model's name and
counts travel. Nothing that is there is written again, so that a build that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.files import fingerprint_of, index_folder, load_model, save_model, save_segment
from hudi_vector.index.manifest import Entry, Manifest, Parameters, newest_manifest, publish_manifest
from hudi_vector.index.model import IndexModel, default_partitions, sample_size, train_model
from hudi_vector.index.segment import build_segment
from hudi_vector.read.parquet import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage import FileInfo, StorageOptions, open_storage
from hudi_vector.table.model import Snapshot

__all__ = ["Each", "create_index", "indexable_files", "refresh_index"]

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""A function applied to each of some items, in any process, its values in the items' order."""


def indexable_files(snapshot: Snapshot) -> list[FileInfo]:
    """The base files of a snapshot that a segment can be made of.

    Args:
        snapshot: The table.

    Returns:
        Its Parquet base files, also those that have log files now.
    """
    bases = (file_slice.base_file for file_slice in snapshot.file_slices)
    return [base for base in bases if base is not None and base.name.endswith(".parquet")]


def create_index(
    snapshot: Snapshot, spec: ScanSpec, parameters: Parameters, each: Each = map, retrain: bool = True
) -> Manifest:
    """Train a model on a sample of the vectors, and make and publish an index with it.

    Args:
        snapshot: The table.
        spec: The column, and how its files are opened; without a predicate.
        parameters: How the index is made.
        each: How files are gone through.
        retrain: Whether a model that is there already is left for a new one.

    Returns:
        The manifest that was published.

    Raises:
        InvalidArgumentError: A parameter is not allowed, or there is no vector to train on.
    """
    files = indexable_files(snapshot)
    root = index_folder(spec.table_uri, spec.column.name, parameters.metric, parameters.kind)
    known = newest_manifest(root, spec.options)
    if known is not None and not retrain:
        return refresh_index(snapshot, spec, known, each)
    rows = list(each(partial(_row_count, spec=spec), files))
    model = _trained(files, rows, spec, parameters, each)
    save_model(open_storage(root, spec.options), root, model)
    lacking = [
        file
        for file in files
        if known is None or known.model_id != model.model_id or not known.entry_of(spec.table_uri, file)
    ]
    return _published(root, model, lacking, spec, parameters, known, each)


def refresh_index(snapshot: Snapshot, spec: ScanSpec, known: Manifest, each: Each = map) -> Manifest:
    """Make the segments that an index lacks, with its own model, and publish it anew.

    Args:
        snapshot: The table.
        spec: The column, and how its files are opened; without a predicate.
        known: The index's newest manifest.
        each: How files are gone through.

    Returns:
        The newest manifest: the same where nothing was lacking.
    """
    uri = snapshot.source.uri
    lacking = [file for file in indexable_files(snapshot) if known.entry_of(uri, file) is None]
    if not lacking:
        return known
    model = load_model(open_storage(known.root, spec.options), known.root, known.model_id)
    return _published(known.root, model, lacking, spec, known.parameters, known, each)


def _published(
    root: str,
    model: IndexModel,
    lacking: Sequence[FileInfo],
    spec: ScanSpec,
    parameters: Parameters,
    known: Manifest | None,
    each: Each,
) -> Manifest:
    works = [_SegmentWork(root, model.model_id, file, spec) for file in lacking]
    made = {entry.file.path: entry for entry in each(_make_segment, works)}
    # Another builder may have published meanwhile: what it made with this model is kept.
    latest = newest_manifest(root, spec.options)
    bases = [manifest for manifest in (known, latest) if manifest is not None and manifest.model_id == model.model_id]
    entries = {path: entry for manifest in bases for path, entry in manifest.entries.items()}
    return publish_manifest(
        Manifest(
            root=root,
            name="",
            column=spec.column.name,
            dimension=spec.column.dimension,
            element=spec.column.element,
            model_id=model.model_id,
            lists=model.lists,
            parameters=parameters,
            entries=entries | made,
            efforts=bases[-1].efforts if bases else (),
            created_ms=time.time_ns() // 1_000_000,
        ),
        spec.options,
    )


@dataclass(frozen=True)
class _SegmentWork:
    """What making one segment takes: executors get it, and open everything themselves."""

    folder: str
    model_id: str
    file: FileInfo
    spec: ScanSpec


def _make_segment(work: _SegmentWork) -> Entry:
    spec = work.spec
    storage = open_storage(work.folder, spec.options)
    model = _model_of(work.folder, work.model_id, spec.options)
    print_ = fingerprint_of(storage, spec.table_uri, work.file)
    reader = ParquetSlice(work.file, spec, keep=False)
    segment = build_segment(model, print_, reader.blocks(ScanCounts()), reader.row_count())
    name, size = save_segment(storage, work.folder, model, segment)
    return Entry.of(segment, name, size)


@lru_cache(maxsize=4)
def _model_of(folder: str, model_id: str, options: StorageOptions) -> IndexModel:
    return load_model(open_storage(folder, options), folder, model_id)


def _row_count(file: FileInfo, spec: ScanSpec) -> int:
    return ParquetSlice(file, spec, keep=False).row_count()


@dataclass(frozen=True)
class _SampleWork:
    file: FileInfo
    rows: int
    wanted: int
    spec: ScanSpec


def _sampled(work: _SampleWork) -> npt.NDArray[Any]:
    """Vectors of rows chosen by chance, the same each time for one file."""
    seed = int.from_bytes(hashlib.sha256(work.file.name.encode()).digest()[:8], "little")
    chosen = np.random.default_rng(seed).choice(work.rows, min(work.wanted, work.rows), replace=False)
    reader = ParquetSlice(work.file, work.spec, keep=False)
    return reader.vectors_at(np.sort(chosen).astype(np.int64), ScanCounts()).values


def _trained(
    files: Sequence[FileInfo], rows: Sequence[int], spec: ScanSpec, parameters: Parameters, each: Each
) -> IndexModel:
    total = sum(rows)
    wanted = parameters.sample or sample_size(parameters.num_partitions or default_partitions(total))
    share = min(1.0, wanted / max(total, 1))
    works = [
        _SampleWork(file, count, math.ceil(count * share), spec)
        for file, count in zip(files, rows, strict=True)
        if count
    ]
    parts = [part for part in each(_sampled, works) if len(part)]
    column = spec.column
    sample = np.concatenate(parts) if parts else np.empty((0, column.dimension), column.dtype)
    return train_model(
        sample,
        kind=parameters.kind,
        metric=parameters.metric,
        element=column.element,
        num_partitions=parameters.num_partitions,
        rows=total,
        **({} if parameters.max_iters is None else {"max_iters": parameters.max_iters}),
    )
