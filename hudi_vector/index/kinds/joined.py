"""Segments made and joined as their kind of index wants it: lists of codes, or graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hudi_vector.index.kinds.candidates import View
from hudi_vector.index.kinds.graph import GraphSegment, GraphView, build_graph
from hudi_vector.index.kinds.kinds import GRAPHS
from hudi_vector.index.kinds.model import IndexModel
from hudi_vector.index.kinds.segment import FileFingerprint, Segment, build_segment
from hudi_vector.index.kinds.view import IndexView
from hudi_vector.index.side_arrays import Arrays
from hudi_vector.kernels.topk import VectorBlock

__all__ = ["AnySegment", "joined_view", "made_segment", "read_segment"]

AnySegment = Segment | GraphSegment


def made_segment(model: IndexModel, file: FileFingerprint, vectors: Iterator[VectorBlock], rows: int) -> AnySegment:
    """Make the segment of a base file.

    Args:
        model: The index's model.
        file: The base file.
        vectors: Its valid vectors, with their positions in it.
        rows: How many rows it has, those without a vector too.

    Returns:
        The segment.
    """
    return (build_graph if model.kind == GRAPHS else build_segment)(model, file, vectors, rows)


def read_segment(model: IndexModel, file: FileFingerprint, header: Mapping[str, Any], arrays: Arrays) -> AnySegment:
    """A segment out of its file's content.

    Args:
        model: Its model.
        file: The base file it is of.
        header: The file's header.
        arrays: The file's arrays.

    Raises:
        ValueError: The arrays do not fit the model.
        KeyError: One is missing.
    """
    return (GraphSegment if model.kind == GRAPHS else Segment).of(model, file, header, arrays)


def joined_view(model: IndexModel, segments: Sequence[Any]) -> View:
    """Join segments of a model.

    Args:
        model: The model of all of them.
        segments: Segments of its kind, in the order in which candidates name them.

    Returns:
        The view.
    """
    return GraphView.join(model, segments) if model.kind == GRAPHS else IndexView.join(model, segments)
