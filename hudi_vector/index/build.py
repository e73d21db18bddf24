"""An index made and brought up to date: a sample, a model, a segment for each base file, a manifest over all.

Each step takes a way to go through files, `map` or one that sends them to executors: only names, the model's name and
counts travel. Nothing that is there is written again, so that a build that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.manifest import Entry, Manifest, index_root, newest_manifest, publish_manifest, relative
from hudi_vector.index.model import IndexModel, load_model, save_model, train_model
from hudi_vector.index.segment import build_segment, find_segment, save_segment
from hudi_vector.read.parquet import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage import FileInfo
from hudi_vector.table.model import Snapshot

__all__ = ["Each", "Parameters", "create_index", "indexable_files", "refresh_index"]

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""A function applied to each of some items, in any process, its values in the items' order."""

_SAMPLE_PER_LIST = 256


@dataclass(frozen=True)
class Parameters:
    """How an index is made; None stands for what suits the table's size.

    Attributes:
        kind: ``ivf_sq8`` or ``ivf_flat``.
        metric: The metric it answers.
        num_partitions: Lists of the coarse quantiser.
        max_iters: Rounds of k-means.
        sample: Vectors the model is trained on.
        recall_target: The recall that searches without one of their own aim at.
    """

    kind: str = "ivf_sq8"
    metric: str = "cosine"
    num_partitions: int | None = None
    max_iters: int | None = None
    sample: int | None = None
    recall_target: float | None = None


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
    root = index_root(spec.table_uri, spec.column.name, parameters.metric, parameters.kind)
    known = newest_manifest(root, spec.options)
    if known is not None and not retrain:
        return refresh_index(snapshot, spec, known, each)
    rows = list(each(partial(_row_count, spec=spec), files))
    model = _trained(files, rows, spec, parameters, each)
    save_model(root, model, spec.options)
    return _published(root, model, files, spec, parameters, known, each)


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
    files = indexable_files(snapshot)
    lacking = [file for file in files if not _covers(known, file, spec)]
    if not lacking:
        return known
    model = load_model(known.root, known.model_id, spec.options)
    return _published(known.root, model, lacking, spec, known.parameters, known, each)
