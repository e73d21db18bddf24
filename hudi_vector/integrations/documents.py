"""The table of documents under the stores of other libraries: one Hudi table with ids, texts, vectors and metadata.

Spark writes it, one commit for each call. Everything else is read without Spark, as by `hudi_vector.open`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.arguments import as_count, as_k, as_seconds, as_settings, as_text, as_vector, require_unicode
from hudi_vector.errors import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedTableError,
    kind_of,
    number_of,
)
from hudi_vector.events import failure_heard
from hudi_vector.integrations.conditions import Condition, Where, literal
from hudi_vector.integrations.metadata import MetadataColumns, arrow_types
from hudi_vector.kernels.metrics import metric_named, require_comparable
from hudi_vector.options import require_known
from hudi_vector.query.index_choice import known_indexes
from hudi_vector.query.opened.kept_snapshots import KeptSnapshots
from hudi_vector.query.opened.request import Asked, vector_column
from hudi_vector.query.opened.rows import count_rows, plan_of_rows, read_rows
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.tuning import SearchOptions, Tuning, checked_tuning
from hudi_vector.read.predicate.form import Predicate, parse
from hudi_vector.read.predicate.nodes import FALSE, Column, In, Literal
from hudi_vector.schema import quoted
from hudi_vector.storage import StorageOptions, absolute, normalise, path_text
from hudi_vector.storage.parallel import counted
from hudi_vector.table.instants import parse_as_of
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from hudi_vector.index.catalog import Index

__all__ = ["DocumentTable", "Stored", "TableOptions", "as_list"]

T = TypeVar("T")

_ZONE = "UTC"
_ELEMENTS = {"float": pa.float32(), "double": pa.float64(), "int8": pa.int8()}


class TableOptions(TypedDict, total=False):
    """Arguments of every store, in addition to the table.

    Attributes:
        spark: The session that writes; by default the active one, and if there is none, `hudi_vector.session` makes one
            at the first write. Searches need none.
        metadata_columns: Metadata that gets a column each, with its type: ``string``, ``int``, ``bigint``, ``double``,
            ``boolean``, ``date`` or ``timestamp``. A table that exists has the columns that it has.
        metadata_column: The column that holds the rest of the metadata as JSON; None for none.
        id_column: The record key.
        text_column: The column of the texts.
        vector_column: The VECTOR column.
        dimension: The number of elements of a vector; by default that of the first vector that is written.
        element: ``"float"``, ``"double"`` or ``"int8"``, for a new table.
        metric: ``"cosine"``, ``"l2"``, ``"dot_product"`` or ``"hamming"``, or an alias of one.
        create: False for a table that must be there already; by default the first write makes it, and until then it is
            empty.
        refresh_every: The seconds after which a search looks for commits of others; the store's own are seen at once.
        options: Settings of Hudi and of this package, for writes and searches.
        storage_options: Hadoop's storage settings, for searches.
    """

    spark: SparkSession | None
    metadata_columns: Mapping[str, str] | None
    metadata_column: str | None
    id_column: str
    text_column: str
    vector_column: str
    dimension: int | None
    element: str
    metric: str
    create: bool
    refresh_every: float
    options: Mapping[str, object] | None
    storage_options: Mapping[str, str] | None


@dataclass(frozen=True)
class Stored:
    """A document: its id, text, metadata, vector and, if a search found it, its distance."""

    id: str
    text: str | None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    vector: Sequence[float] | None = None
    distance: float = 0.0


Filter = str | Condition | None


class DocumentTable:
    """A Hudi table of documents; threads may share it.

    Writes of one process to one table take turns. Those of several processes need one of Hudi's lock providers. A copy,
    also one that was pickled for another process, opens the table again; it writes with the active session there.
    """

    def __init__(
        self,
        table: str | os.PathLike[str],
        *,
        spark: SparkSession | None = None,
        metadata_columns: Mapping[str, str] | None = None,
        metadata_column: str | None = "metadata",
        id_column: str = "id",
        text_column: str = "text",
        vector_column: str = "embedding",
        dimension: int | None = None,
        element: str = "float",
        metric: str = "cosine",
        create: bool = True,
        refresh_every: float = 5.0,
        options: Mapping[str, object] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Check the arguments, and open the table if it is there; they are explained at `TableOptions`."""
        self.path = as_text(path_text(table), "table")
        if not isinstance(element, str) or element not in _ELEMENTS:
            raise InvalidArgumentError(f"element must be one of {', '.join(_ELEMENTS)}, not {element!r}")
        if not isinstance(create, bool):
            raise InvalidTypeError(f"create must be True or False, not {create!r}")
        self.id_column = as_text(id_column, "id_column")
        self.text_column = as_text(text_column, "text_column")
        self.vector_column = as_text(vector_column, "vector_column")
        self.metric = metric_named(metric)
        self._element = element
        self._dimension = as_count(dimension, "dimension")
        self._wanted = MetadataColumns(
            self.path,
            as_text(metadata_column, "metadata_column", allow_null=True),
            arrow_types({} if metadata_columns is None else metadata_columns),
        )
        self._require_own_names()
        self._conf = as_settings(options, "options")
        self._options = dict(options or {})
        require_known(self._conf)
        self._storage = StorageOptions.of(as_settings(storage_options, "storage_options"))
        self._refresh_every = as_seconds(refresh_every, "refresh_every")
        self._given = {
            "metadata_columns": None if metadata_columns is None else dict(metadata_columns),
            "metadata_column": metadata_column,
            "id_column": id_column,
            "text_column": text_column,
            "vector_column": vector_column,
            "dimension": dimension,
            "element": element,
            "metric": metric,
            "create": create,
            "refresh_every": refresh_every,
            "options": self._options,
            "storage_options": None if storage_options is None else dict(storage_options),
        }
        self._spark = spark if spark is not None else _active_session()
        self._indexes: Recent[str, Sequence[Index]] = Recent(8)
        self._opening = threading.Lock()
        self._kept: KeptSnapshots | None = None
        if self._snapshots() is None and not create:
            raise TableNotFoundError(f"there is no Hudi table at '{self.path}'; give its path, or create=True")

    def __reduce__(self) -> tuple[Callable[..., DocumentTable], tuple[str, Mapping[str, Any]]]:
        """Return what opens the table again, in another process too; locks and the session stay here."""
        return _opened, (absolute(self.path), self._given)

    def write(self, documents: Sequence[Stored]) -> None:
        """Insert documents, or replace those with the same id, by one commit; no documents make none.

        Raises InvalidArgumentError if an id occurs twice, or a text cannot be stored, DimensionMismatchError if a
        vector has another length, InvalidTypeError if metadata cannot be stored, and what `hudi_vector.write` raises.
        """
        if not documents:
            return
        ids = self._checked_ids([each.id for each in documents])
        for each in documents:
            _require_storable(each)
        arrays = _vectors(documents)
        columns, dimension = self._metadata_columns(), self._checked_dimension(documents)
        rows = {
            self.id_column: pa.array(ids, pa.string()),
            self.text_column: pa.array([each.text for each in documents], pa.string()),
            self.vector_column: arrays,
            **columns.arrays(ids, [each.metadata for each in documents]),
        }
        vectors = {self.vector_column: (dimension, self._element)}
        self._commit(pa.table(rows), "upsert", vectors)

    def delete(self, ids: Iterable[str] | None = None) -> int:
        """Delete documents by one commit and return how many there were; None deletes all. Unknown ids are ignored."""
        with self.turn():
            known = self.ids(None if ids is None else self._ids_text(self.listed(ids)))
            if known:
                self._commit(pa.table({self.id_column: pa.array(known, pa.string())}), "delete", {})
        return len(known)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let no other thread of this process write in the block, which reads what the table has now and writes."""
        with _turn(normalise(self.path)):
            if self._kept is not None:
                self._kept.refresh()
            yield

    def ids(self, filter: Filter = None) -> list[str]:  # noqa: A002 - the name that searches give it
        """Return the ids of the documents that pass a filter, in their order."""
        return [each.id for each in self.read(filter, texts=False)]

    def get(self, ids: Iterable[str], as_of: Any = None) -> list[Stored]:
        """Return documents with their vectors in the order of `ids`, without those that the table does not have."""
        wanted = self.listed(ids)
        found = {each.id: each for each in self.read(self._ids_text(wanted), as_of, vectors=True)} if wanted else {}
        return [found[one] for one in dict.fromkeys(wanted) if one in found]

    def read(
        self,
        filter: Filter = None,  # noqa: A002
        as_of: Any = None,
        *,
        texts: bool = True,
        vectors: bool = False,
    ) -> list[Stored]:
        """Return all documents that pass a filter, in the order of their ids."""

        def work(snapshot: Snapshot) -> list[Stored]:
            return self._matching(snapshot, filter, texts, vectors)

        return self._answer(as_of, work, [])

    def count(self, filter: Filter = None, as_of: Any = None) -> int:  # noqa: A002
        """Return the number of documents that pass a filter."""

        def work(snapshot: Snapshot) -> int:
            where = self._where(filter, self._found_in(snapshot))
            if where.accepts is not None:
                return len(self._matching(snapshot, filter, texts=False, vectors=False))
            return count_rows(self._plan_of(snapshot, where.text))

        return self._answer(as_of, work, 0)

    def search(
        self,
        vector: Any,
        k: int,
        *,
        filter: Filter = None,  # noqa: A002
        as_of: Any = None,
        max_distance: float | None = None,
        vectors: bool = False,
        mode: str | None = None,
        recall_target: float | None = None,
        k_name: str = "k",
        **options: Unpack[SearchOptions],
    ) -> list[Stored]:
        """Return the k nearest documents among those that pass the filter, the nearest first.

        `k_name` is what the caller calls k, for a sentence about it.
        """
        tuning, query = checked_tuning(mode, recall_target, **options), as_vector(vector, None)[None, :]
        as_k(k, k_name)

        def asked(text: str | None) -> Asked:
            name, conf = self.vector_column, self._conf
            return Asked.of(self.path, name, query, k, self.metric, text, max_distance, as_of, conf, _ZONE, tuning)

        asked(None)  # checks the arguments, also where there is no table yet

        def work(snapshot: Snapshot) -> list[Stored]:
            columns = self._found_in(snapshot)
            where = self._where(filter, columns)
            wanted = asked(where.text)
            if where.accepts is not None:
                wanted = replace(wanted, where=self._among(snapshot, filter))
            names = [self.id_column, self.text_column, *columns.names, *([self.vector_column] if vectors else [])]
            found = wanted.find(snapshot, self._known_indexes(snapshot, tuning), running, names)
            rows, distances = found.columns(names), found.winners.distance.tolist()
            found.report(names)
            return [
                self._stored(row, columns, distance)
                for row, distance in zip(self._listed(pa.table(rows)), distances, strict=True)
            ]

        with failure_heard(self._source(), "local") as running:
            return self._answer(as_of, work, [])

    def score(self, distance: float) -> float:
        """Return the cosine similarity or the dot product of a distance, by other metrics 1 / (1 + the distance)."""
        if self.metric == "cosine":
            return 1.0 - distance
        return 0.0 - distance if self.metric == "dot_product" else 1.0 / (1.0 + distance)

    def listed(self, ids: Iterable[Any]) -> list[str]:
        """Return ids as a list; raise InvalidTypeError if they are no list of texts that are not blank."""
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
            raise InvalidTypeError(f"ids must be a list of texts, not {kind_of(ids)}")
        listed = list(ids)
        for one in listed:
            if not isinstance(one, str) or not one.strip():
                raise InvalidTypeError(f"an id must be a text that is not blank, not {one!r}")
            require_unicode(one, "an id")
        return listed

    def _matching(self, snapshot: Snapshot, given: Filter, texts: bool, vectors: bool) -> list[Stored]:
        """Return the documents that pass a filter, in the order of their ids; without `texts` their ids count alone."""
        columns = self._found_in(snapshot)
        where = self._where(given, columns)
        names = [self.id_column]
        names += [self.text_column] if texts or where.reads_text else []
        names += columns.names if texts or where.accepts is not None else []
        names += [self.vector_column] if vectors else []
        rows = self._read(snapshot, names, where.text)
        found = [self._stored(row, columns) for row in self._listed(rows)]
        if where.accepts is not None:
            found = [each for each in found if where.accepts(each.id, each.text, dict(each.metadata))]
        return sorted(found, key=lambda each: each.id)

    def _among(self, snapshot: Snapshot, given: Filter) -> Predicate:
        """Return a condition over the ids that a filter accepts, for which the metadata of other rows is read too."""
        kind = pa.string()
        ids = [each.id for each in self._matching(snapshot, given, texts=False, vectors=False)]
        return In(Column(self.id_column, kind), tuple(Literal(one, kind) for one in ids)) if ids else FALSE

    def _answer(self, as_of: Any, work: Callable[[Snapshot], T], empty: T) -> T:
        """Do work on the snapshot of now or of a point in the history; return `empty` if there is no table yet."""
        kept = self._snapshots()
        if kept is None:
            return empty
        with counted(self._source().is_counted):
            return kept.answer(None if as_of is None else parse_as_of(as_of, _ZONE), work)

    def _read(self, snapshot: Snapshot, names: Sequence[str], text: str | None) -> pa.Table:
        return read_rows(self._plan_of(snapshot, text), names)

    def _plan_of(self, snapshot: Snapshot, text: str | None) -> SearchPlan:
        """Return the plan of the rows that meet a condition."""
        predicate = None if text is None else parse(text, snapshot.schema, snapshot.source.name)
        return plan_of_rows(snapshot, self.vector_column, predicate, _ZONE, self._conf)

    def _listed(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Return rows as dictionaries; raise UnsupportedTableError for a moment that Python has no value for."""
        try:
            listed: list[dict[str, Any]] = rows.to_pylist()
        except (OverflowError, ValueError) as problem:
            raise UnsupportedTableError(
                f"a row of '{self.path}' has a day or a moment outside of the years 1 to 9999, or finer than "
                f"microseconds, which Python has no value for ({problem}); correct it with hudi_vector.write"
            ) from None
        return listed

    def _stored(self, row: Mapping[str, Any], columns: MetadataColumns, distance: float = 0.0) -> Stored:
        has_metadata = all(name in row for name in columns.names)
        return Stored(
            id=row[self.id_column],
            text=row.get(self.text_column),
            metadata=columns.of_row(row) if has_metadata else {},
            vector=row.get(self.vector_column),
            distance=distance,
        )

    def _where(self, given: Filter, columns: MetadataColumns) -> Where:
        if given is None or isinstance(given, str):
            return Where(as_text(given, "filter", allow_null=True))
        return given.where(columns.types)

    def _found_in(self, snapshot: Snapshot) -> MetadataColumns:
        own, schema = (self.id_column, self.text_column, self.vector_column), snapshot.schema
        for name in own:
            if name not in schema.names:
                raise UnknownColumnError.of(name, schema.names, self.path)
        for name in (self.id_column, self.text_column):
            if schema.field(name).type != pa.string():
                raise InvalidArgumentError(
                    f"column '{name}' of '{self.path}' is {schema.field(name).type}; ids and texts must be strings"
                )
        return self._wanted.found_in(schema, own)

    def _metadata_columns(self) -> MetadataColumns:
        """Return the columns of the table, or those that it will have."""
        kept = self._snapshots()
        return self._wanted if kept is None else self._found_in(kept.get())

    def _checked_dimension(self, documents: Sequence[Stored]) -> int:
        """Return the number of elements of the table's vectors, or that which all of these vectors have."""
        kept, named = self._snapshots(), self._dimension
        if kept is None:
            require_comparable(self.metric, self.vector_column, self._element)
        else:
            named = vector_column(kept.get(), self.vector_column, self.path, 0).dimension
        for each in documents:
            if each.vector is None:
                continue
            named = named or len(each.vector)
            if len(each.vector) != named:
                raise DimensionMismatchError(
                    f"the vector of document '{each.id}' has {number_of(len(each.vector), 'element')}, and others of "
                    f"'{self.path}' "
                    f"have {named}; embed all documents with one model"
                )
        if not named:
            raise InvalidArgumentError(
                f"no document has a vector, so that the length of those of '{self.path}' is unknown; give dimension"
            )
        return named

    def _require_own_names(self) -> None:
        """Raise InvalidArgumentError if two columns share a name, without regard to case, or one is Hudi's."""
        single = {"id_column": self.id_column, "text_column": self.text_column, "vector_column": self.vector_column}
        named = [*single.items(), *(("metadata_columns", name) for name in self._wanted.types)]
        named += [] if self._wanted.json is None else [("metadata_column", self._wanted.json)]
        taken: dict[str, str] = {}
        for argument, name in named:
            require_unicode(name, argument)
            if name.lower().startswith("_hoodie_"):
                raise InvalidArgumentError(
                    f"{argument} has the name '{name}', and those that begin with '_hoodie_' are Hudi's; give another"
                )
            if name.lower() in taken:
                raise InvalidArgumentError(
                    f"{argument} has the name '{name}', which {taken[name.lower()]} has too, and case does not count; "
                    "give each column another name"
                )
            taken[name.lower()] = argument

    def _checked_ids(self, ids: Sequence[Any]) -> list[str]:
        listed, seen = self.listed(ids), set[str]()
        for one in listed:
            if one in seen:
                raise InvalidArgumentError(f"id '{one}' is given twice; give each document of a call its own id")
            seen.add(one)
        return listed

    def _ids_text(self, ids: Sequence[str]) -> str:
        values = ", ".join(literal(one, pa.string()) or "" for one in ids)
        return f"{quoted(self.id_column)} IN ({values})" if ids else "FALSE"

    def _source(self) -> Source:
        return Source(normalise(self.path), self.path, self._storage)

    def _snapshots(self) -> KeptSnapshots | None:
        """Return the snapshots of the table, None if there is none yet."""
        if self._kept is None:
            with self._opening:
                if self._kept is None:
                    try:
                        table = NativeTable(self._source())
                    except TableNotFoundError:
                        return None
                    kept = KeptSnapshots(table, self._refresh_every, lambda: self._indexes.forget(lambda _: True))
                    self._found_in(kept.get())
                    self._kept = kept
        return self._kept

    def _known_indexes(self, snapshot: Snapshot, tuning: Tuning) -> Sequence[Index]:
        """Return the indexes of the vectors, found once for each choice of a snapshot; [] for an exact search."""
        if tuning.settled(self._conf).mode == "exact":
            return []
        known = self._indexes.get(snapshot.identity)
        if known is None:
            known = known_indexes(snapshot.source, self.vector_column, self._conf, Tuning("auto"))
            self._indexes.put(snapshot.identity, known)
        return known

    def _commit(self, rows: pa.Table, operation: str, vectors: Mapping[str, Any]) -> None:
        from hudi_vector.sessions import session
        from hudi_vector.writing.writer import write

        with _turn(normalise(self.path)):
            self._spark = self._spark or session()
            write(
                rows,
                self.path,
                record_key=self.id_column,
                operation=operation,
                vectors=vectors,
                options=self._options,
                spark=self._spark,
            )
        if self._kept is not None:
            self._kept.refresh()


def as_list(value: Any, name: str, of: str) -> list[Any]:
    """Return an argument as a list; raise InvalidTypeError if it is text, bytes or a mapping, or cannot be iterated.

    `of` says in the sentence what it is a list of.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidTypeError(f"{name} must be a list {of}, not {kind_of(value)}")
    return list(value)


def _require_storable(document: Stored) -> None:
    """Raise an error if the text of a document is none, or its metadata is no dictionary with names."""
    if document.text is not None:
        if not isinstance(document.text, str):
            raise InvalidTypeError(f"the text of document '{document.id}' is {kind_of(document.text)}; give a text")
        require_unicode(document.text, f"the text of document '{document.id}'")
    if not isinstance(document.metadata, Mapping):
        raise InvalidTypeError(
            f"the metadata of document '{document.id}' is {kind_of(document.metadata)}; give a dictionary"
        )
    for name in document.metadata:
        if not isinstance(name, str):
            raise InvalidTypeError(f"the metadata of document '{document.id}' has the name {name!r}; give a text")
        require_unicode(name, f"a name in the metadata of document '{document.id}'")


def _opened(table: str, given: Mapping[str, Any]) -> DocumentTable:
    return DocumentTable(table, **given)


_TURNS: dict[str, threading.RLock] = {}


def _turn(uri: str) -> threading.RLock:
    """Return the lock by which the writes of this process to one table take turns; its thread may take it again."""
    return _TURNS.setdefault(uri, threading.RLock())


def _vectors(documents: Sequence[Stored]) -> pa.Array:
    """Return the vectors of documents as lists of doubles, NULL for those that have none."""
    arrays: list[npt.NDArray[np.float64]] = []
    for each in documents:
        try:
            array = np.asarray([] if each.vector is None else each.vector, np.float64)
        except (TypeError, ValueError):
            array = np.asarray(0.0)
        if array.ndim != 1:
            raise InvalidTypeError(f"the vector of document '{each.id}' is no list of numbers; give numbers, or None")
        arrays.append(array)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in arrays])]).astype(np.int32)
    absent = pa.array([each.vector is None for each in documents])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(arrays)), mask=absent)


def _active_session() -> SparkSession | None:
    """Return the active session of this thread, if pyspark is loaded and has one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
