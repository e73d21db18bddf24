"""Creation, reading and joining of segments, for both forms of segments: lists of codes and graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hudi_vector.index.kinds.candidates import View
from hudi_vector.index.kinds.graph import GraphSegment, GraphView, build_graph
from hudi_vector.index.kinds.model import IndexModel
from hudi_vector.index.kinds.segment import FileFingerprint, Segment, SegmentShape, build_segment
from hudi_vector.index.kinds.view import IndexView
from hudi_vector.index.side_arrays import Arrays
from hudi_vector.kernels.topk import VectorBlock

__all__ = ["AnySegment", "joined_view", "made_segment", "read_segment"]

AnySegment = Segment | GraphSegment


def made_segment(model: IndexModel, file: FileFingerprint, vectors: Iterator[VectorBlock], rows: int) -> AnySegment:
    """Make the segment of a base file from its valid vectors and their row positions.

    `rows` counts all rows of the file, including those without a vector.
    """
    return (build_graph if model.codes == "graph" else build_segment)(model, file, vectors, rows)


def read_segment(model: IndexModel, file: FileFingerprint, header: Mapping[str, Any], arrays: Arrays) -> AnySegment:
    """Return a segment from the header and arrays of its file.

    Raises ValueError if the arrays do not fit the model, and KeyError if one is missing.
    """
    return (GraphSegment if model.codes == "graph" else Segment).of(model, file, header, arrays)


def joined_view(model: IndexModel, segments: Iterable[Any], shapes: Sequence[SegmentShape] | None = None) -> View:
    """Return a view of segments of one model, to which candidates refer by their position in `segments`.

    If the shapes of all are known, one segment of lists is in memory at a time, in addition to the view.
    """
    if model.codes == "graph":
        return GraphView.join(model, list(segments))
    return IndexView.join(model, segments, shapes)
