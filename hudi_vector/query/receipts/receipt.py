"""The receipt of a search: one JSON document, whose hash shows a change of it. Version 1."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from hudi_vector.arguments import as_vector
from hudi_vector.errors import (
    DataFileError,
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
    kind_of,
    number_of,
)
from hudi_vector.kernels.metrics import METRICS, Floats
from hudi_vector.options import CACHE_MAX_BYTES
from hudi_vector.shown import Shown
from hudi_vector.storage.stored_values import at_least, null_or_from, one_of, shaped
from hudi_vector.table.other_files import require_outside

__all__ = [
    "SETTINGS",
    "VERSION",
    "Access",
    "Arguments",
    "Files",
    "FoundRow",
    "Groups",
    "IndexRead",
    "Queries",
    "Receipt",
    "ReceiptContent",
    "SnapshotRead",
    "as_receipt",
]

VERSION = 1
SETTINGS = (CACHE_MAX_BYTES.key,)
"""The settings that the receipt of an approximate search holds where a session has them: they can change the answer.

All other settings that matter are in the plan. Settings of storage, which hold keys, are never among them.
"""

_DTYPE = "<f8"
_SHOWN = "the receipt"
_HASH = "sha256"
_Count = Annotated[int, at_least(0)]
_Positive = Annotated[int, at_least(1)]


@dataclass(frozen=True)
class Files:
    """The data files that a search had to read: how many, their bytes, and a hash of their paths and sizes."""

    count: _Count
    bytes: _Count
    sha256: str


@dataclass(frozen=True)
class SnapshotRead:
    """The snapshot that a search read.

    `instant` is its last commit, `completed` the newest completion time of its commits, and `pending` the actions up to
    that instant that had not completed. `as_of` is the instant that the search asked for, None for another point.
    """

    instant: str
    completed: str
    pending: tuple[str, ...]
    as_of: str | None
    files: Files


@dataclass(frozen=True)
class Groups:
    """The columns that make a group, the number of rows of each, and whether rows with NULL in them were left out."""

    columns: tuple[str, ...]
    per_group: _Positive
    drop_nulls: bool


@dataclass(frozen=True)
class Arguments:
    """The arguments of a search; `max_distance` is the hexadecimal text of a float, and `zone` that of the filter.

    With `groups`, k is a number of groups.
    """

    column: str
    metric: Annotated[str, one_of(*METRICS)]
    k: _Positive
    max_distance: str | None
    filter: str | None
    zone: str
    columns: tuple[str, ...]
    groups: Groups | None


@dataclass(frozen=True)
class IndexRead:
    """The index that a search read, and how far; the folder is relative to the table if it is below it."""

    folder: str
    kind: str
    metric: str
    model: str
    generation: _Count
    manifest: str
    nprobes: _Positive | None
    refine_factor: Annotated[Any, null_or_from(1)]


@dataclass(frozen=True)
class Access:
    """The way in which a search found its rows: exact or approximate, where, by which accesses of slices, which index.

    An exact answer does not depend on any of the others.
    """

    mode: Annotated[str, one_of("exact", "approximate")]
    execution: Annotated[str, one_of("local", "distributed")]
    slices: dict[str, _Count]
    index: IndexRead | None


@dataclass(frozen=True)
class Queries:
    """The query vectors: their shape, the hash of their bytes, and the bytes in base64, None if they were left out.

    The bytes are those of float64 numbers, the least significant first, one vector after another.
    """

    count: _Count
    dimension: _Positive
    dtype: Annotated[str, one_of("float64")]
    sha256: str
    vectors: str | None

    @classmethod
    def of(cls, vectors: Floats, with_vectors: bool) -> Queries:
        """Return the queries of an array of shape (m, d)."""
        raw = np.ascontiguousarray(vectors, _DTYPE).tobytes()
        text = base64.b64encode(raw).decode("ascii") if with_vectors else None
        return cls(len(vectors), vectors.shape[1], "float64", hashlib.sha256(raw).hexdigest(), text)

    def array(self, given: Any = None) -> Floats:
        """Return the vectors, shape (m, d), from the receipt, or from the caller where the receipt has only their hash.

        Raises InvalidArgumentError if they are missing or are others.
        """
        if given is None and self.vectors is None:
            raise InvalidArgumentError(
                f"{_SHOWN} has the query vector's hash alone; give the vector too, as vector=… or --query-file"
            )
        found = self._given(given) if given is not None else self._stored()
        if hashlib.sha256(np.ascontiguousarray(found, _DTYPE).tobytes()).hexdigest() != self.sha256:
            raise InvalidArgumentError(
                f"the vector is not the one that was searched for: its hash is not {self.sha256}; give the vector of "
                f"the search that {_SHOWN} is of"
            )
        return found

    def _given(self, given: Any) -> Floats:
        rows = list(given) if np.ndim(given) == 2 else [given]
        if len(rows) != self.count:
            raise InvalidArgumentError(
                f"{number_of(len(rows), 'vector was', 'vectors were')} given, and {_SHOWN} is of {self.count}"
            )
        try:
            return np.reshape([as_vector(row, self.dimension) for row in rows], (self.count, self.dimension))
        except DimensionMismatchError as problem:
            raise InvalidArgumentError(f"the vector is not the one that was searched for: {problem}") from None

    def _stored(self) -> Floats:
        try:
            raw = base64.b64decode(self.vectors or "", validate=True)
        except (binascii.Error, ValueError):
            raise _damaged("its vectors are not base64") from None
        if len(raw) != 8 * self.count * self.dimension:
            raise _damaged(f"its vectors have {len(raw)} bytes, not {8 * self.count * self.dimension}")
        found: Floats = np.frombuffer(raw, _DTYPE).reshape(self.count, self.dimension).astype(np.float64)
        if not np.isfinite(found).all():
            raise _damaged("a vector holds NaN or infinity")
        return found


@dataclass(frozen=True)
class FoundRow:
    """A row of the answer: its query and rank (from 1), record key and partition path, place, and distance.

    `file`, relative to the table, and `row`, from 0, are the place; a row merged from log files has none. A table
    without record keys has places alone. `distance` is the hexadecimal text of a float, which has all its bits.
    """

    query: _Count
    rank: _Positive
    key: str | None
    partition: str | None
    file: str | None
    row: _Count | None
    distance: str

    @property
    def identity(self) -> tuple[object, object]:
        """Return what the row is known by: key and partition path, or else its place."""
        return (self.file, self.row) if self.key is None else (self.key, self.partition)


@dataclass(frozen=True)
class ReceiptContent:
    """Everything that a receipt says, but for its hash; `package` is the version of hudi-vector that made it."""

    version: int
    package: str
    table: str
    snapshot: SnapshotRead
    search: Arguments
    access: Access
    settings: dict[str, str]
    queries: Queries
    rows: tuple[FoundRow, ...]


@dataclass(frozen=True, repr=False)
class Receipt(Shown):
    """The questions, the snapshot and the answer of a search: a JSON document with a hash.

    `hudi_vector.replay` runs the search again and compares. `content` has the parts. The hash shows that a receipt was
    changed by accident; it is no signature, since whoever changes a receipt can compute another hash.

    Example:
        >>> with hv.open("/tables/products", column="embedding") as t:
        ...     receipt = t.search(q, k=5).report.receipt()
        >>> receipt.document()["version"], len(receipt.rows())
        (1, 5)
    """

    content: ReceiptContent
    sha256: str

    @classmethod
    def of(cls, content: ReceiptContent) -> Receipt:
        """Return the receipt with this content."""
        return cls(content, _digest(asdict(content)))

    def document(self) -> dict[str, Any]:
        """Return the receipt as JSON values.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     document = t.search(q, k=5).report.receipt().document()
            >>> document["search"]["k"], document["access"]["mode"]
            (5, 'exact')
        """
        values: dict[str, Any] = json.loads(_canonical(asdict(self.content)))
        return {**values, _HASH: self.sha256}

    def to_json(self) -> str:
        """Return the receipt as one line of JSON.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     receipt = t.search(q, k=5).report.receipt()
            >>> hv.replay(None, receipt.to_json()).same
            True
        """
        return _canonical(self.document())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the receipt to a file of this machine, as JSON; a file that is there is replaced.

        Args:
            path: The file.

        Raises:
            InvalidArgumentError: The file would lie among the data files of a table.
            OSError: The file cannot be written.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.search(q, k=5).report.receipt().save("/tmp/receipt.json")
            >>> hv.replay(None, "/tmp/receipt.json").same
            True
        """
        require_outside(path, "the receipt")
        Path(path).write_text(self.to_json() + "\n", "utf-8")

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the answer, each as a dictionary, with their distances as numbers.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     rows = t.search(q, k=5).report.receipt().rows()
            >>> [row["rank"] for row in rows]
            [1, 2, 3, 4, 5]
        """
        return [{**asdict(row), "distance": float.fromhex(row.distance)} for row in self.content.rows]

    def lines(self) -> Iterator[str]:
        """Yield a few sentences for people: what was searched, when, and what hash the receipt has.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     len(list(t.search(q, k=5).report.receipt().lines()))
            2
        """
        asked, read = self.content.search, self.content.snapshot
        found = (
            f"{number_of(len(self.content.rows), 'row')} for {number_of(self.content.queries.count, 'query')}, k = "
            f"{asked.k}, {asked.metric}"
        )
        yield f"{self.content.access.mode} search of {self.content.table} at instant {read.instant}: {found}"
        yield f"sha256 {self.sha256}"


def as_receipt(value: Any) -> Receipt:
    """Return a receipt that is given as such, as JSON values, as JSON text, or as a path of a file with JSON.

    Raises InvalidArgumentError, with one sentence, if it is no receipt, was changed, or has a version that is not known
    here.
    """
    if isinstance(value, Receipt):
        return value
    document = value if isinstance(value, Mapping) else _parsed(value)
    if "version" not in document or "rows" not in document:
        raise InvalidArgumentError(f"this is no receipt: it has no 'version' and 'rows'; give what {_MAKER} wrote")
    version = document["version"]
    if version != VERSION or isinstance(version, bool):
        raise InvalidArgumentError(
            f"{_SHOWN} has version {version!r}, and this hudi-vector reads version {VERSION}; use hudi-vector "
            f"{document.get('package')}, which made it, or a newer one"
        )
    body = {name: part for name, part in document.items() if name != _HASH}
    try:
        actual = _digest(body)
    except (TypeError, ValueError, RecursionError):
        why = "it holds what JSON does not"
        raise InvalidArgumentError(f"this is no receipt: {why}; give what {_MAKER} wrote") from None
    try:
        if actual != document.get(_HASH):
            raise _damaged(f"the hash of its content is {actual}, not {document.get(_HASH)}")
        content = shaped(ReceiptContent, body, _SHOWN)
    except DataFileError as problem:
        raise InvalidArgumentError(str(problem).replace(f"'{_SHOWN}'", _SHOWN)) from None
    _require_sense(content)
    return Receipt(content, actual)


def _require_sense(content: ReceiptContent) -> None:
    """Raise InvalidArgumentError for a distance that is no number, groups of no column, or a setting of no receipt."""
    for text in (content.search.max_distance, *(row.distance for row in content.rows)):
        try:
            float.fromhex("0" if text is None else text)
        except (ValueError, OverflowError):
            raise _damaged(f"the distance {text!r} is no hexadecimal float") from None
    if content.search.groups is not None and not content.search.groups.columns:
        raise _damaged("it groups rows by no column")
    other = next((key for key in content.settings if key not in SETTINGS), None)
    if other is not None:
        raise _damaged(f"it holds the setting {other!r}, which no receipt does")


_MAKER = "report.receipt()"


def _parsed(value: Any) -> Mapping[str, Any]:
    if isinstance(value, (str, os.PathLike)):
        text = value if isinstance(value, str) and value.lstrip().startswith("{") else _read(value)
        try:
            found = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as problem:
            raise InvalidArgumentError(f"this is no receipt: it is not JSON ({problem})") from None
        if isinstance(found, dict):
            return found
        raise InvalidArgumentError(f"this is no receipt: it is {kind_of(found)}, not a JSON object")
    raise InvalidTypeError(f"a receipt is a file's path, JSON, or what {_MAKER} returned, not {kind_of(value)}")


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise InvalidArgumentError(f"the receipt '{os.fspath(path)}' cannot be read: {why}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(body).encode("ascii")).hexdigest()


def _damaged(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{_SHOWN} was changed since it was made: {why}; give the original")
