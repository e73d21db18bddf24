"""Creation and refresh of an index: a sample, a model, a segment per base file, and a manifest that lists them.

Each step takes a function like `map` to process files, which may send them to executors: only file names, the model's
id and counts travel. Existing whole files are not written again, so a build that was stopped resumes where it was.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import DataFileError, RefusedError, UnsupportedTableError, number_of
from hudi_vector.index.calibration.held_out import HELD_OUT, Each, HeldOut, calibrated
from hudi_vector.index.catalog import Index, opened_index, others_of
from hudi_vector.index.drift import mean_quality, quality_of
from hudi_vector.index.files import (
    fingerprint_of,
    load_model,
    packs_folder,
    save_model,
    save_segment,
    segments_folder,
)
from hudi_vector.index.kinds.joined import made_segment
from hudi_vector.index.kinds.kinds import KINDS, check_choices, indexed_metric, kind_named, usual_kind
from hudi_vector.index.kinds.model import IndexModel, default_partitions, sample_size, train_model, working
from hudi_vector.index.kinds.segment import Segment
from hudi_vector.index.locations import IndexHome, IndexPlace, in_table
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, newest_manifest, publish_manifest
from hudi_vector.index.packing import is_to_pack, packed
from hudi_vector.index.packs.stored import packs_of, read_segments
from hudi_vector.index.verified import verified
from hudi_vector.kernels.topk import Ints, VectorBlock
from hudi_vector.read.logs.record_keys import hashes_of_file
from hudi_vector.read.parquet.data_file import DataFile, held_in_memory
from hudi_vector.read.parquet.kept_footer import KeptFooter
from hudi_vector.read.parquet.page_table import PageTable, page_table
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage import FileInfo, StorageOptions, open_storage, parallel, scheme_of
from hudi_vector.table.model import Snapshot

_MOST_OTHERS = 16
"""The most other lists of files that are searched for segments to share."""

_MOST_STARTS = 3
"""The most attempts of a refresh; it starts again when another job has made the index again."""

_BLOCK_ELEMENTS = 1 << 22
"""The elements of vectors that are converted to float64 at a time."""

_MOST_ROWS = 1 << 50
"""More rows than a table has."""

_MOST_AT_ONCE = 16
"""The most files of an object store that one task works on at a time."""

__all__ = [
    "Each",
    "Parameters",
    "create_index",
    "files_at_once",
    "indexable_files",
    "lacking",
    "of_usual_kind",
    "refresh_index",
]


def indexable_files(snapshot: Snapshot) -> list[FileInfo]:
    """Return the Parquet base files of a snapshot, including those that have log files."""
    bases = (file_slice.base_file for file_slice in snapshot.file_slices)
    return [base for base in bases if base is not None and base.name.endswith(".parquet")]


_NUMBERS = ("num_partitions", "num_sub_vectors", "num_bits", "max_iters", "sample")


@dataclass(frozen=True)
class Parameters:
    """The settings of an index to be made; None selects what suits the table's size.

    Attributes:
        kind: ``ivf_sq8``, ``ivf_flat``, ``ivf_rabitq``, ``ivf_pq`` or ``hnsw``.
        metric: The metric that the index answers.
        num_partitions: The number of lists of the coarse quantiser.
        num_sub_vectors: The number of parts into which vectors are cut (``ivf_pq``).
        num_bits: The bits of a part's code (``ivf_pq``) or of an element's code (``ivf_rabitq``, ``hnsw``).
        max_iters: The most iterations of k-means.
        sample: The number of vectors that the model is trained on.
        recall_target: The recall of searches that do not set one.
    """

    kind: str = "ivf_sq8"
    metric: str = "cosine"
    num_partitions: int | None = None
    num_sub_vectors: int | None = None
    num_bits: int | None = None
    max_iters: int | None = None
    sample: int | None = None
    recall_target: float | None = None

    def place(self, home: IndexHome) -> IndexPlace:
        """Return where an index with these settings is stored."""
        of_segments = {key: value for key, value in asdict(self).items() if key not in _NOT_OF_SEGMENTS}
        return home.place(self.metric, self.kind, of_segments)


_NOT_OF_SEGMENTS = frozenset({"kind", "metric", "recall_target"})


def create_index(
    snapshot: Snapshot,
    spec: ScanSpec,
    parameters: Parameters,
    each: Each = map,
    retrain: bool = True,
    home: IndexHome | None = None,
) -> Index:
    """Train a model on a sample of the vectors, and make and publish an index with it.

    `spec` names the column and how its files are opened, and has no predicate. `each` is `map` or a function like it.
    Without `retrain`, an existing index is refreshed instead; if there is none, model and segments of an index of
    mostly the same files are used where possible. `home` says where the index is stored; None means in the table.
    Raises InvalidArgumentError if a setting is not allowed, and MissingDependencyError if the kind needs faiss and it
    is not installed.
    """
    given = {name: getattr(parameters, name) for name in _NUMBERS}
    indexed_metric(parameters.metric)
    check_choices(parameters.kind, spec.column.dimension, **given)
    place = parameters.place(home or in_table(spec.table_uri, spec.column.name))
    known, files = opened_index(place, spec.options), indexable_files(snapshot)
    if known is not None and place.key:
        known = verified(known, files, spec.options)
    if known is not None and not retrain:
        return refresh_index(snapshot, spec, known, each)
    akin = None if retrain else _akin(place, files, parameters, spec.options)
    if akin is not None:
        done = _completed(akin, files, spec, each, _hashes_keys(snapshot), lacking(akin, files, spec.options))
        return _brought_up(done, akin.manifest.model_id, snapshot, spec, each)
    rows = list(each(partial(_row_count, spec=spec), files))
    model, held = _trained(files, rows, spec, parameters, each)
    save_model(open_storage(place.folder, spec.options), place.folder, model)
    manifest = IndexManifest.of(spec.column.name, model, asdict(parameters), ())
    if known is not None and known.manifest.model_id == model.model_id:
        manifest = replace(manifest, entries=known.manifest.entries)
    index = Index(place.base, place.folder, manifest, place.key)
    missing = _to_make(index, files, spec, each)
    done = _completed(index, files, spec, each, _hashes_keys(snapshot), missing, held, replaces=retrain)
    return _brought_up(done, model.model_id, snapshot, spec, each)


def of_usual_kind(
    snapshot: Snapshot,
    spec: ScanSpec,
    parameters: Parameters,
    each: Each = map,
    retrain: bool = True,
    home: IndexHome | None = None,
) -> Parameters:
    """Return the settings with the kind of an index for which none was asked; arguments are those of `create_index`.

    Without `retrain`, it is the kind of an existing index for the metric, if there is one. Rows are counted only where
    the kind depends on them.
    """
    home = home or in_table(spec.table_uri, spec.column.name)
    if not retrain:
        for kind in KINDS:
            if opened_index(replace(parameters, kind=kind).place(home), spec.options) is not None:
                return replace(parameters, kind=kind)
    files = indexable_files(snapshot)
    dimension, target = spec.column.dimension, parameters.recall_target
    is_remote = any(scheme_of(file.uri) != "file" for file in files)
    kinds = {usual_kind(dimension, rows, is_remote, target) for rows in (0, _MOST_ROWS)}
    if len(kinds) > 1:
        kinds = {usual_kind(dimension, sum(each(partial(_row_count, spec=spec), files)), is_remote, target)}
    return replace(parameters, kind=kinds.pop())


def _brought_up(done: Index, model_id: str, snapshot: Snapshot, spec: ScanSpec, each: Each) -> Index:
    """Return `done` if it has this model; otherwise another job published its index meanwhile, which is refreshed."""
    return done if done.manifest.model_id == model_id else refresh_index(snapshot, spec, done, each)


def _akin(
    place: IndexPlace, files: Sequence[FileInfo], parameters: Parameters, options: StorageOptions
) -> Index | None:
    """Return an index of another list of files whose segments cover at least half of the bytes of `files`, or None.

    Of several, that with the most bytes is taken. The result is an index of `files`: it has that index's model, the
    covering segments, and the key of `place`.
    """
    total, best, most = sum(file.size for file in files), None, 0
    for other in others_of(place, options, _MOST_OTHERS):
        covered = other.covered(files)
        size = sum(file.size for file, _ in covered)
        if 2 * size >= total and size > most:
            manifest = replace(
                other.manifest, parameters=asdict(parameters), entries=tuple(entry for _, entry in covered)
            )
            best, most = replace(other, manifest=manifest, key=place.key), size
    return None if best is None else verified(best, files, options)


def refresh_index(snapshot: Snapshot, spec: ScanSpec, known: Index, each: Each = map, *, deep: bool = False) -> Index:
    """Make the segments that an index lacks, with its own model, pack those that are not packed, and publish it.

    `spec` names the column and how its files are opened, and has no predicate. `each` is `map` or a function like it.
    With `deep`, all segments are read, and damaged ones of the right length are made again too.

    Returns the refreshed index, or `known` itself if nothing was missing. If another job has made the index again with
    another model meanwhile, that index is refreshed. Raises RefusedError if this happens three times.
    """
    files = indexable_files(snapshot)
    for _ in range(_MOST_STARTS):
        missing = _to_make(known, files, spec, each) if deep else lacking(known, files, spec.options)
        kind, covered = known.manifest.kind, known.covered(files)
        if not missing and not any(is_to_pack(known.folder, kind, entry) for _, entry in covered):
            return known
        done = _completed(known, files, spec, each, _hashes_keys(snapshot), missing)
        if done.manifest.model_id == known.manifest.model_id:
            return done
        known = verified(done, files, spec.options) if done.key else done
    raise RefusedError(
        f"the index of '{known.manifest.column}' was made again {_MOST_STARTS} times while it was being refreshed; "
        "refresh it when no other job makes it"
    )


def files_at_once(snapshot: Snapshot) -> int:
    """Return how many base files one task works on at a time: 1 on a local disk, some small ones on an object store."""
    sizes = [file.size for file in indexable_files(snapshot) if scheme_of(file.uri) != "file"]
    return max(1, min(_MOST_AT_ONCE, parallel.within_memory(sum(sizes) // len(sizes)))) if sizes else 1


def lacking(index: Index, files: Sequence[FileInfo], options: StorageOptions) -> list[FileInfo]:
    """Return the files without a segment, and those whose segment file is missing or has another length."""
    storage = open_storage(index.folder, options)
    listed = storage.each(storage.list_files, [folder(index.folder) for folder in (segments_folder, packs_folder)])
    sizes = {file.name: file.size for files in listed for file in files}

    def is_there(entry: ManifestEntry) -> bool:
        if entry.pack is None:
            return sizes.get(entry.segment) == entry.bytes
        return sizes.get(entry.pack.name) == entry.pack.bytes

    entries = ((file, index.entry_of(file)) for file in files)
    return [file for file, entry in entries if entry is None or not is_there(entry)]


def _to_make(index: Index, files: Sequence[FileInfo], spec: ScanSpec, each: Each) -> list[FileInfo]:
    """Return the files that have no segment or a damaged one; all segments are read."""
    missing = lacking(index, files, spec.options)
    gone = {file.uri for file in missing}
    there = [(file, entry) for file, entry in index.covered(files) if file.uri not in gone]
    groups = [*packs_of([entry for _, entry in there]).values(), *([entry] for _, entry in there if entry.pack is None)]
    works = [_Existing(index.folder, index.manifest.model_id, tuple(group), spec.options) for group in groups]
    unfit = {name for names in (each(_damaged, works) if works else ()) for name in names}
    return [*missing, *(file for file, entry in there if entry.segment in unfit)]


@dataclass(frozen=True)
class _Existing:
    """The input of the check of one segment, or of the segments of one pack, sent to executors."""

    folder: str
    model_id: str
    entries: tuple[ManifestEntry, ...]
    options: StorageOptions


def _damaged(work: _Existing) -> list[str]:
    """Return the names of the segments that are missing or damaged; what a newer version wrote is neither."""
    model = _model_of(work.folder, work.model_id, work.options)
    read = read_segments(open_storage(work.folder, work.options), work.folder, model, work.entries)
    return [name for name, found in read.items() if isinstance(found, DataFileError)]


def _hashes_keys(snapshot: Snapshot) -> bool:
    """Return True if log files may refer to rows of the base files by their keys."""
    return snapshot.config.merge_on_read and snapshot.config.populates_meta_fields


def _completed(
    index: Index,
    files: Sequence[FileInfo],
    spec: ScanSpec,
    each: Each,
    hashes_keys: bool,
    missing: Sequence[FileInfo],
    held: HeldOut | None = None,
    replaces: bool = False,
) -> Index:
    """Make the missing segments and publish the index.

    If another job has published another model meanwhile, its index is returned and nothing is published, unless
    `replaces`.
    """
    storage, model_id = open_storage(index.folder, spec.options), index.manifest.model_id
    works = [_SegmentWork(index.folder, index.table_uri, model_id, file, spec, hashes_keys) for file in missing]
    made = {entry.file.path: entry for entry in each(_make_segment, works)}
    manifest = replace(index.manifest, entries=tuple({**index.entries, **made}.values()))
    manifest = packed(index.folder, manifest, spec.options, each)
    made = {entry.file.path: entry for entry in manifest.entries if entry.file.path in made}
    if not manifest.trained.imbalance:
        manifest = replace(manifest, trained=mean_quality((one.rows, one.quality) for one in manifest.entries))
    if not manifest.calibration:
        measured = calibrated(replace(index, manifest=manifest), files, spec, each, held)
        manifest = replace(manifest, calibration=measured)
    # Another builder may have published meanwhile: segments that it made with this model are kept.
    latest = newest_manifest(storage, index.folder, index.key)
    if latest is not None and latest.model_id == model_id:
        entries = {**index.entries, **{entry.file.path: entry for entry in latest.entries}, **made}
        manifest = replace(manifest, entries=tuple(entries.values()))
    elif latest is not None and not replaces:
        return replace(index, manifest=latest)
    return replace(index, manifest=publish_manifest(storage, index.folder, manifest, index.key))


@dataclass(frozen=True)
class _SegmentWork:
    """The input of making one segment, sent to executors, which open all files themselves."""

    folder: str
    base: str
    model_id: str
    file: FileInfo
    spec: ScanSpec
    hashes_keys: bool


def _make_segment(work: _SegmentWork) -> ManifestEntry:
    with held_in_memory(work.file, work.spec.options):
        return _segment_of_file(work)


def _segment_of_file(work: _SegmentWork) -> ManifestEntry:
    spec = work.spec
    storage = open_storage(work.folder, spec.options)
    model = _model_of(work.folder, work.model_id, spec.options)
    print_ = fingerprint_of(open_storage(work.file.uri, spec.options), work.base, work.file)
    reader, counts = ParquetSlice(work.file, spec, keep=False), ScanCounts()
    segment = made_segment(model, print_, reader.blocks(counts), reader.row_count())
    if counts.uneven:
        raise UnsupportedTableError(
            f"column '{spec.column.name}' of '{work.file.uri}' has "
            f"{number_of(counts.uneven, 'vector that is not', 'vectors that are not')} of "
            f"{number_of(spec.column.dimension, 'element')}; an index is made of vectors of one length"
        )
    pages, footer = _kept_of(work.file, spec, is_full=not counts.nulls)
    segment = replace(segment, pages=pages)
    if isinstance(segment, Segment):
        segment = replace(segment, footer=footer)
    keys = hashes_of_file(work.file, spec.options) if work.hashes_keys else None
    name, size = save_segment(storage, work.folder, model, segment, keys)
    return ManifestEntry(segment.file, segment.rows, name, size, segment.clipped, quality_of(segment))


def _kept_of(file: FileInfo, spec: ScanSpec, *, is_full: bool) -> tuple[PageTable | None, KeptFooter | None]:
    """Return the page table of a base file, of which every row has a vector if `is_full`, and its kept footer."""
    column, data = spec.column, DataFile(file, spec.options, mapped=False)
    try:
        width = column.dimension * column.dtype.itemsize
        return page_table(data, column.name, width, is_full=is_full), data.kept_footer()
    finally:
        data.close()


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


def _sampled(work: _SampleWork) -> VectorBlock:
    """Return the vectors of randomly chosen rows; the choice depends only on the file's name and the row counts."""
    seed = int.from_bytes(hashlib.sha256(work.file.name.encode()).digest()[:8], "little")
    chosen = np.random.default_rng(seed).choice(work.rows, min(work.wanted, work.rows), replace=False)
    with held_in_memory(work.file, work.spec.options):
        reader = ParquetSlice(work.file, work.spec, keep=False)
        return reader.vectors_at(np.sort(chosen).astype(np.int64), ScanCounts())


def _trained(
    files: Sequence[FileInfo], rows: Sequence[int], spec: ScanSpec, parameters: Parameters, each: Each
) -> tuple[IndexModel, HeldOut | None]:
    """Return the model, and sampled vectors that it was not trained on or None if there are none."""
    if kind_named(parameters.kind).codes == "graph":
        rows = [0] * len(files)  # a graph has no training, so no sample is read
    total = sum(rows)
    wanted = parameters.sample or sample_size(parameters.num_partitions or default_partitions(total))
    share = min(1.0, (wanted + HELD_OUT) / max(total, 1))
    works = [
        _SampleWork(file, count, math.ceil(count * share), spec)
        for file, count in zip(files, rows, strict=True)
        if count
    ]
    column = spec.column
    blocks = list(each(_sampled, works))
    number = np.repeat(np.arange(len(works)), [len(block) for block in blocks])
    position = np.concatenate([np.empty(0, np.int64), *(block.positions for block in blocks)])
    sample = np.concatenate([np.empty((0, column.dimension), column.dtype), *(block.values for block in blocks)])
    del blocks  # a sample is a large part of memory, and so is each copy of it
    out = _held_out(sample, parameters.metric)
    held, sample = sample[out].astype(np.float64), np.delete(sample, out, axis=0)
    model = train_model(
        sample,
        kind=parameters.kind,
        metric=parameters.metric,
        element=column.element,
        num_partitions=parameters.num_partitions,
        num_sub_vectors=parameters.num_sub_vectors,
        num_bits=parameters.num_bits,
        rows=total,
        max_iters=parameters.max_iters,
    )
    if not len(out):
        return model, None
    uris = tuple(works[place].file.uri for place in number[out].tolist())
    return model, HeldOut(held, uris, position[out].astype(np.int64))


def _held_out(sample: npt.NDArray[Any], metric: str) -> Ints:
    """Return the numbers of the sampled vectors kept out of training as calibration queries.

    Only vectors that have a code are chosen, and at most a third of them.
    """
    blocks = np.array_split(sample, max(1, sample.size // _BLOCK_ELEMENTS))
    able = np.flatnonzero(np.concatenate([working(block, metric)[1] for block in blocks]))
    return np.sort(np.random.default_rng(1).choice(able, min(HELD_OUT, len(able) // 3), replace=False))
