"""A segment: the vectors of one base file as codes, ordered by list, with the distance of each code from its vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import DimensionMismatchError, number_of
from hudi_vector.index.kinds.faiss_library import encode
from hudi_vector.index.kinds.model import Floats32, Floats64, IndexModel
from hudi_vector.index.side_arrays import Arrays
from hudi_vector.kernels import kmeans, quantise, rabitq
from hudi_vector.kernels.topk import Ints, VectorBlock
from hudi_vector.read.parquet.kept_footer import KeptFooter
from hudi_vector.read.parquet.page_table import PageTable

__all__ = [
    "MEASURES",
    "FileFingerprint",
    "Segment",
    "SegmentShape",
    "build_segment",
    "measures",
    "require_dimension",
    "require_measures",
    "require_positions",
]

_BLOCK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class FileFingerprint:
    """The identity of a base file's content from which a segment was made.

    `path` is relative to the table, or a full URI for files outside a table; `size` is in bytes, `mtime_ns` in
    nanoseconds since 1970, and `footer` is the SHA-256 of the file's footer.
    """

    path: str
    size: int
    mtime_ns: int
    footer: str

    @property
    def is_named_once(self) -> bool:
        """Return True for a base file of a Hudi table, whose name is never written again; its path is relative."""
        return "://" not in self.path


@dataclass(frozen=True)
class SegmentShape:
    """The number of rows of a segment's base file, and of entries in each list of the segment, shape (lists,)."""

    rows: int
    sizes: Ints


@dataclass(frozen=True)
class Segment:
    """The part of an index for one base file.

    Rows without a valid vector are in none of the arrays.

    Attributes:
        file: The base file.
        model_id: The model.
        rows: The number of rows of the base file.
        offsets: List l holds the entries ``offsets[l]`` to ``offsets[l + 1]`` of the next four arrays.
        position: The row of each entry in the base file.
        codes: The code of each entry.
        square: The squared length of each decoded code relative to the model's `low`.
        error: The distance of each vector from its decoded code, rounded up.
        radius: The largest distance of a vector from its list's centroid, for each list.
        always: The positions of rows without a code, which are candidates of every query.
        clipped: The number of rows with a value outside the model's range.
        pages: The page table of the base file, or None if unknown.
        footer: What is kept of the base file's footer, or None.
    """

    file: FileFingerprint
    model_id: str
    rows: int
    offsets: npt.NDArray[Any]
    position: npt.NDArray[np.uint32]
    codes: npt.NDArray[Any]
    square: Floats32
    error: Floats32
    radius: Floats32
    always: Ints
    clipped: int
    pages: PageTable | None = None
    footer: KeptFooter | None = None

    ARRAYS: ClassVar = ("offsets", "position", "codes", "square", "error", "radius", "always")

    @staticmethod
    def stored(model: IndexModel) -> tuple[str, ...]:
        """Return the names of the arrays that are stored; bits say what their squares and errors are."""
        measured = MEASURES if model.codes == "bits" else ()
        return tuple(name for name in Segment.ARRAYS if name not in measured)

    @classmethod
    def of(cls, model: IndexModel, file: FileFingerprint, header: Mapping[str, Any], arrays: Arrays) -> Segment:
        """Return a segment from the header and flat arrays of its file.

        Raises ValueError if the arrays do not fit the model or contradict each other, and KeyError if one is missing.
        """
        codes = arrays["codes"].reshape(-1, model.code_width)
        offsets, count = arrays["offsets"], len(arrays["position"])
        if codes.dtype != model.code_dtype or len(offsets) != model.lists + 1:
            raise ValueError("its codes are of another kind")
        if offsets.dtype.kind != "i" or offsets[0] or offsets[-1] != count or (offsets[1:] < offsets[:-1]).any():
            raise ValueError("its offsets contradict each other, or its positions")
        if len(codes) != count or len(arrays["radius"]) != model.lists:
            raise ValueError("it has not as many codes as positions")
        given: dict[str, Any] = {**{name: arrays[name] for name in cls.stored(model)}, "codes": codes}
        if model.codes == "bits":
            lists = np.repeat(np.arange(model.lists), np.diff(offsets))
            given |= dict(zip(MEASURES, measures(model, codes, lists), strict=True))
        if any(len(given[name]) != count for name in MEASURES):
            raise ValueError("it has not as many distances as positions")
        if any(given[name].dtype != np.float32 for name in (*MEASURES, "radius")):
            raise ValueError("its distances are no float32")
        require_measures(*(given[name] for name in MEASURES))
        require_positions(header["rows"], arrays["position"], arrays["always"])
        if type(header["clipped"]) is not int:
            raise ValueError("it does not say how many rows were clipped")
        return cls(file, model.model_id, header["rows"], clipped=header["clipped"], **given)

    def __len__(self) -> int:
        return len(self.position)

    @property
    def shape(self) -> SegmentShape:
        """Return the segment's number of rows, and of entries in each list."""
        return SegmentShape(self.rows, np.diff(self.offsets).astype(np.int64))


MEASURES = ("square", "error")
"""The arrays of a segment that say how long a decoded code is, and how far its vector is from it."""


def measures(model: IndexModel, codes: npt.NDArray[np.uint8], lists: npt.NDArray[Any]) -> tuple[Floats32, Floats32]:
    """Return the `square` and `error` of codes that are bits, from the codes and the list of each, shape (n,).

    Raises ValueError if a code has numbers that no vector has.
    """
    if not rabitq.is_sound(codes):
        raise ValueError("its codes have numbers that no vector has")
    square, error = np.empty(len(codes), np.float32), np.empty(len(codes), np.float32)
    step = max(256, _BLOCK_ELEMENTS // model.dimension)
    for start in range(0, len(codes), step):
        part = slice(start, start + step)
        found = rabitq.decode(codes[part], model.dimension, model.num_bits)
        rows = found.rows
        rows += model.centroids[lists[part]]
        square[part] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        # The sum with the centroid is rounded to float32.
        error[part] = rounded_up(found.error + 2.0**-22 * np.sqrt(square[part].astype(np.float64)))
    return square, error


def require_measures(*measured: Floats32) -> None:
    """Raise ValueError if a stored length or distance is negative or no number."""
    if not all((values >= 0).all() for values in measured):
        raise ValueError("a distance is negative or no number")


def require_positions(rows: Any, position: npt.NDArray[Any], always: npt.NDArray[Any]) -> None:
    """Raise ValueError if a position of a stored segment is not one of its `rows` rows.

    `position` are the rows that have a code, and `always` those without one.
    """
    if type(rows) is not int or not 0 <= rows <= 1 << 32 or position.dtype != np.uint32 or always.dtype != np.int64:
        raise ValueError(f"it has {rows!r} rows, or positions of another type")
    if max(int(position.max(initial=0)), int(always.max(initial=0)), 0) >= max(rows, 1) or (always < 0).any():
        raise ValueError(f"a position is none of its {rows} rows")
    if not rows and (len(position) or len(always)):
        raise ValueError("it has positions, and no rows")


@dataclass(frozen=True)
class _Coded:
    """Rows of a block with their codes, in the order of the block."""

    position: npt.NDArray[np.uint32]
    label: npt.NDArray[np.int32]
    codes: npt.NDArray[Any]
    square: Floats32
    error: Floats32
    distance: Floats32
    always: Ints
    clipped: int


def build_segment(model: IndexModel, file: FileFingerprint, vectors: Iterator[VectorBlock], rows: int) -> Segment:
    """Make the segment of a base file from its valid vectors and their row positions.

    `rows` counts all rows of the file, including those without a vector. Raises DimensionMismatchError if the vectors
    have another dimension than the model.
    """
    parts = [_code(model, np.empty((0, model.dimension)), np.empty(0, np.int64))]
    step = max(256, _BLOCK_ELEMENTS // model.dimension)
    for block in vectors:
        require_dimension(model, file, block)
        for start in range(0, len(block), step):
            part = slice(start, start + step)
            parts.append(_code(model, block.values[part], block.positions[part]))
    return _ordered(model, file, parts, rows)


def require_dimension(model: IndexModel, file: FileFingerprint, block: VectorBlock) -> None:
    """Raise DimensionMismatchError, naming the base file, if vectors have another dimension than the model."""
    if block.values.shape[1] != model.dimension:
        raise DimensionMismatchError(
            f"'{file.path}' holds vectors of {number_of(block.values.shape[1], 'element')} and the index is of "
            f"{model.dimension}; build the index again"
        )


def _code(model: IndexModel, values: npt.NDArray[Any], positions: Ints) -> _Coded:
    vectors, fit = model.placed(values)
    always = positions[~fit]
    if len(always):
        vectors, positions = vectors[fit], positions[fit]
    label = kmeans.nearest(vectors - model.origin, model.centred)
    clipped = 0
    if model.codes == "ranges":
        codes, outside = quantise.encode(vectors, model.low, model.scale)
        offset = codes.astype(np.float64) * model.scale
        clipped = int(outside.sum())
    else:
        codes = _encoded(model, vectors, label)
        offset = model.factors(codes, label).astype(np.float64)
    squares = np.einsum("ij,ij->i", offset, offset)
    offset = offset + model.base
    np.subtract(vectors, offset, out=offset)
    from_code = np.sqrt(np.einsum("ij,ij->i", offset, offset))
    np.subtract(vectors, model.centroids[label], out=offset)
    from_centroid = np.sqrt(np.einsum("ij,ij->i", offset, offset))
    # The largest float64 rounding error, also of exact distances: a few units in the last place per element.
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) + model.base_length
    lost = 4 * (model.dimension + 8) * float(np.finfo(np.float64).eps) * length
    coded = _Coded(
        positions.astype(np.uint32),
        label,
        codes,
        squares.astype(np.float32),
        rounded_up(from_code + lost),
        rounded_up(from_centroid + lost),
        always,
        clipped,
    )
    return _as_read(model, coded) if model.codes == "bits" else coded


def _encoded(model: IndexModel, vectors: Floats64, label: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    """Return the codes of vectors of these lists, for a kind without ranges."""
    if model.codes == "values":
        return vectors.astype(np.float32)
    vectors = vectors - model.centroids[label]
    if model.codes == "bits":
        return rabitq.encode(vectors, model.num_bits)
    return encode(vectors.astype(np.float32), model.codebook, model.num_bits)


def _as_read(model: IndexModel, coded: _Coded) -> _Coded:
    """Return rows coded by bits with what a reader finds their codes to say; rows that are further get no code."""
    square, error = measures(model, coded.codes, coded.label)
    near = coded.error <= error
    return _Coded(
        coded.position[near],
        coded.label[near],
        coded.codes[near],
        square[near],
        error[near],
        coded.distance[near],
        np.concatenate([coded.always, coded.position[~near].astype(np.int64)]),
        coded.clipped,
    )


def rounded_up(values: Floats64) -> Floats32:
    """Return the next float32 above each value."""
    above: Floats32 = np.nextafter(values.astype(np.float32), np.float32(np.inf))
    return above


def _ordered(model: IndexModel, file: FileFingerprint, parts: list[_Coded], rows: int) -> Segment:
    label = np.concatenate([part.label for part in parts])
    # numpy sorts 16-bit numbers by radix, which is faster; there are seldom more than 65,536 lists.
    order = np.argsort(label.astype(np.uint16) if model.lists <= 1 << 16 else label, kind="stable")
    count = np.bincount(label, minlength=model.lists)
    offsets = np.concatenate(([0], np.cumsum(count)))
    filled = np.flatnonzero(count)
    radius = np.zeros(model.lists, np.float32)
    if len(filled):
        distance = np.concatenate([part.distance for part in parts])[order]
        radius[filled] = np.maximum.reduceat(distance, offsets[filled])
    return Segment(
        file,
        model.model_id,
        rows,
        offsets.astype(np.int32 if len(label) < 1 << 31 else np.int64),
        np.concatenate([part.position for part in parts])[order],
        np.concatenate([part.codes for part in parts])[order],
        np.concatenate([part.square for part in parts])[order],
        np.concatenate([part.error for part in parts])[order],
        radius,
        np.sort(np.concatenate([part.always for part in parts])),
        sum(part.clipped for part in parts),
    )
