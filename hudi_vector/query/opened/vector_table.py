"""The table opened for many searches without Spark and without a JVM, as `hudi_vector.open` returns it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hudi_vector import options as settings
from hudi_vector.arguments import as_count, as_seconds, as_settings, as_text, as_vector, checked_names, known_arguments
from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedTableError,
    number_of,
)
from hudi_vector.events import failure_heard
from hudi_vector.index.catalog import Index
from hudi_vector.query.execute import open_slice
from hudi_vector.query.explain import described, explained_by
from hudi_vector.query.files.deleted import Deleted, checked_deleted, without_deleted
from hudi_vector.query.files.plain_files import DeltaFiles, PlainFiles
from hudi_vector.query.grouping.arguments import GROUP_RANK, group_ranks
from hudi_vector.query.index_choice import external_directory, known_indexes
from hudi_vector.query.lance.dataset import LanceDataset
from hudi_vector.query.merge import Winners
from hudi_vector.query.opened.ahead import IndexesAhead, look_ahead
from hudi_vector.query.opened.external import external_indexes
from hudi_vector.query.opened.frames import one_partition
from hudi_vector.query.opened.kept_snapshots import KeptSnapshots, SnapshotSource
from hudi_vector.query.opened.request import (
    Asked,
    Found,
    as_queries,
    as_zone,
    require_readable,
    spelled,
    vector_column,
)
from hudi_vector.query.opened.rows import count_rows
from hudi_vector.query.opened.stream import row_reader, with_rows
from hudi_vector.query.plan import SearchPlan, SliceAccess
from hudi_vector.query.report import SearchReport
from hudi_vector.query.tuning import SearchOptions, Tuning, checked_tuning
from hudi_vector.read.cache import process_cache
from hudi_vector.read.conform import vector_type
from hudi_vector.read.spec import ScanSpec
from hudi_vector.shown import Shown, ShownText
from hudi_vector.storage import StorageOptions, absolute, normalise, open_storage, path_text
from hudi_vector.storage.parallel import counted, set_parallelism
from hudi_vector.table.instants import parse_as_of
from hudi_vector.table.model import FileSlice, Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

__all__ = ["SearchHits", "VectorTable", "hits_of", "open"]

_PATH, _ROW, _DISTANCE, _QUERY = "file_path", "row_index", "_distance", "_hudi_query_index"
_BATCH_ROWS, _MOST_ROWS = 8192, 100_000
_REFS = pa.schema([pa.field(_PATH, pa.string()), pa.field(_ROW, pa.int64())])


@dataclass(frozen=True, repr=False)
class SearchHits(Shown):
    """The rows found by a search, with everything that a ``pyarrow.Table`` has.

    For example ``column``, ``to_pylist`` and ``to_pandas``. `table` holds the rows, `plan` is the plan of the search,
    and `report` describes its execution.

    Example:
        >>> with hv.open("/tables/products", column="embedding") as t:
        ...     hits = t.search(q, k=5, columns=["id"])
        >>> len(hits), hits.column_names, hits.report.k
        (5, ['id', '_distance'], 5)
    """

    table: pa.Table
    report: SearchReport
    plan: SearchPlan
    _winners: Winners = field(compare=False)

    @property
    def places(self) -> pa.Table:
        """Return the file and the row number of each row; NULL for rows that were merged from log files.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.search(q, k=1).places.column_names
            ['file_path', 'row_index']
        """
        return _places(self.plan, self._winners)

    @property
    def refs(self) -> list[tuple[str, int]]:
        """Return the place of each row: its file, and its row number in the file, from 0.

        Raises:
            UnsupportedTableError: A row was merged from log files, so that it has no place in a single file.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     path, row = t.search(q, k=1).refs[0]
        """
        places = self.places
        if places.column(_PATH).null_count:
            raise UnsupportedTableError(
                "some rows were merged from log files and have no place in one file; name the columns in the search"
            )
        return list(zip(*(column.to_pylist() for column in places.columns), strict=True))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, each as a dictionary.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.search(q, k=1, columns=["id"]).rows()[0].keys()
            dict_keys(['id', '_distance'])
        """
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame of pandas.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     len(t.search(q, k=5).to_pandas())
            5
        """
        return self.table.to_pandas()

    def lines(self) -> Iterator[str]:
        """Yield one line: the number of rows, and the table.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     len(list(t.search(q, k=5).lines()))
            1
        """
        yield f"{number_of(len(self), 'row')} of '{self.plan.snapshot.source.name}'"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the rows to other libraries of Arrow, as a PyCapsule."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __getitem__(self, key: Any) -> Any:
        return self.table[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.table, name)


class VectorTable:
    """A table with a column of vectors, open for searches; made by `hudi_vector.open`.

    Threads may share it. The searched snapshot is kept until `refresh` is called or its time is over. Decoded vectors,
    footers and pages are kept in the process's cache, limited by ``hoodie.vector.cache.max.bytes``.

    A process that gets it pickled opens it again, as a copy does: at the newest commit, unless ``as_of`` says another.
    What is pickled holds ``storage_options``, with their secrets.

    Example:
        >>> table = hv.open("/tables/products", column="embedding")
        >>> table.search(q, k=5).num_rows
        5
        >>> table.close()
    """

    def __init__(
        self,
        source: SnapshotSource,
        name: str,
        column: str | None,
        as_of: Any,
        refresh_every: float | None,
        options: Mapping[str, str],
        zone: str,
        deleted: Deleted | None = None,
        ahead: IndexesAhead | None = None,
        again: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Read the table's schema and raise an error if the column does not hold vectors.

        `again` holds the arguments with which `open` opens the table in another process.
        """
        self.name = name
        self._column = column or ""
        self._as_of = as_of
        self._options = options
        self._zone = zone
        # None unless the rows are those of plain files or of a Delta table, where callers may name deleted rows.
        self._deleted = deleted
        self._again = again
        self._hudi_table = source.source if isinstance(source, NativeTable) else None
        self._kept: KeptSnapshots | None = KeptSnapshots(source, refresh_every, self._forget_indexes)
        self._indexes: Recent[str, Sequence[Index]] = Recent(8)
        self._looked_for: Recent[str, bool] = Recent(8)
        snapshot = self._snapshot(as_of)
        known = None if ahead is None else ahead()
        if known is not None and self._searched(snapshot) == self._column:
            self._indexes.put(snapshot.identity, known)
            self._looked_for.put(snapshot.identity, True)
        vector_column(snapshot, self._column, name, 1)
        without_deleted(snapshot, deleted or {})
        self._is_counted = snapshot.source.is_counted

    @property
    def column(self) -> str:
        """Return the searched column: the one that was named, else the one that the table has chosen for searches.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.column
            'embedding'
        """
        return self._column or self._searched(self._snapshot(self._as_of))

    def _searched(self, snapshot: Snapshot) -> str:
        """Return the name of the column to search, as the table spells it."""
        return vector_column(snapshot, self._column, self.name, 1).name

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return ShownText("\n".join(self._lines()))._repr_html_()

    def _lines(self) -> Iterator[str]:
        """Yield what is known of the table without reading its files."""
        named = self._column if self._kept is None else self.column
        yield f"VectorTable '{self.name}'" + (f", searched by '{named}'" if named else "")
        if self._kept is None:
            yield "  closed"
            return
        snapshot = self._snapshot(self._as_of)
        yield f"  {number_of(len(snapshot.file_slices), 'file slice')} at instant {snapshot.instant or 'none'}"
        own = [field for field in snapshot.schema if not field.name.startswith("_hoodie_")]
        yield from (
            f"  {field.name}: {vector.descriptor if (vector := vector_type(field)) else field.type}" for field in own
        )

    def __reduce__(self) -> tuple[Callable[..., VectorTable], tuple[Mapping[str, Any]]]:
        """Return what opens the table again, in another process too: it keeps no snapshot or index of this one."""
        self._snapshots()  # raises an error if it was closed
        return _opened_again, (self._again,)

    def __enter__(self) -> VectorTable:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of rows, from the files' footers; log files are merged for it."""
        return count_rows(self._plan_of_all(None))

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table, with Hudi's own, and their Arrow types.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     "title" in t.schema.names
            True
        """
        return self._snapshot(self._as_of).schema

    def close(self) -> None:
        """Forget the snapshots; the process's cache drops the table's data when it needs the room.

        Example:
            >>> table = hv.open("/tables/products", column="embedding")
            >>> table.close()
        """
        self._kept = None

    def refresh(self) -> bool:
        """Look for new commits, and for new or refreshed indexes.

        Returns:
            True if later searches see another state of the table.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.refresh()
            False
        """
        kept = self._snapshots()
        self._indexes.forget(lambda _: True)
        before = kept.identity
        return kept.refresh().identity != before and before is not None

    def _explained(
        self,
        metric: Any,
        filter: Any,  # noqa: A002 - the name SQL gives it
        as_of: Any,
        max_distance: Any,
        mode: Any,
        recall_target: Any,
        k: Any,
        columns: Any,
        deleted: Any,
        query: Any = None,
        queries: Any = None,
        options: Any = None,
    ) -> str:
        """Describe the plan of `search` or `search_batch`, including slices that only Spark can read and why."""
        tuning = checked_tuning(mode, recall_target, **(options or {}))
        vectors = as_vector(query, None)[None, :] if queries is None else as_queries(queries)
        asked = self._asked(vectors, k, metric, filter, as_of, max_distance, tuning)
        wanted, left_out = checked_names(columns), self._left_out(deleted)

        def answer(snapshot: Snapshot) -> str:
            for gone in left_out:
                snapshot = without_deleted(snapshot, gone)
            self._names(snapshot, wanted, tuning.grouping is not None)
            return described(asked.plan(snapshot, self._known_indexes(snapshot, tuning)))

        return self._snapshots().answer(asked.as_of, answer)

    @known_arguments(SearchOptions)
    @explained_by(_explained)
    def search(
        self,
        query: Any,
        k: int = 10,
        *,
        metric: str = "cosine",
        filter: str | None = None,  # noqa: A002 - the name SQL gives it
        columns: Sequence[str] | None = None,
        mode: str | None = None,
        recall_target: float | None = None,
        as_of: Any = None,
        max_distance: float | None = None,
        deleted: Any = None,
        **options: Unpack[SearchOptions],
    ) -> SearchHits:
        """Find the k nearest rows to one vector.

        Args:
            query: A list or one-dimensional array of numbers, as long as the column's vectors.
            k: The number of rows, 1 to 100,000.
            metric: ``"cosine"``, ``"l2"``, ``"dot_product"`` or ``"hamming"``, or an alias of one.
            filter: A condition over the table's columns, applied before distances.
            columns: The columns to return in addition to ``_distance``; by default, and for ``["*"]``, all except the
                searched one and Hudi's own, whose names begin with ``_hoodie_``. ``[]`` reads no column.
            mode: ``"exact"`` uses no index; ``"auto"``, the default, uses one if the answer stays exact or a recall
                target below 1 is set; ``"approximate"`` uses one even if rows may be missed.
            recall_target: The share of the true nearest rows to find on average, for example 0.95.
            as_of: An instant of the timeline or a timestamp, to search what was visible then; by default the `as_of`
                with which the table was opened.
            max_distance: The largest distance to return, inclusive, in the metric's unit.
            deleted: Rows of files or of a Delta table to leave out, in addition to those that are deleted already: a
                mapping of file to a bool for each row or to row numbers, or pairs of file and row number.
            options: ``algorithm``, ``nprobes``, ``refine_factor``, ``timeout``, ``group_by``, ``per_group`` and
                ``group_nulls``: see `SearchOptions`.

        Returns:
            The rows, ascending by ``_distance``, or with ``group_by`` by ``_group_rank`` and then ``_distance``. `refs`
            of them are their places, of which `fetch_rows` reads columns.

        Raises:
            InvalidArgumentError: An argument is not allowed.
            UnsupportedTableError: A slice of the table can only be read by Spark.
            InstantNotAvailableError: The table does not have, or no longer has, the state that ``as_of`` asks for.
            DataFileError: A data file cannot be read.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.search(q, k=5, columns=["id"]).column_names
            ['id', '_distance']
        """
        tuning = checked_tuning(mode, recall_target, **options)
        vectors = as_vector(query, None)[None, :]
        asked = self._asked(vectors, k, metric, filter, as_of, max_distance, tuning)
        return self._search(asked, False, columns, deleted)

    @known_arguments(SearchOptions)
    @explained_by(_explained)
    def search_batch(
        self,
        queries: Any,
        k: int = 10,
        *,
        metric: str = "cosine",
        filter: str | None = None,  # noqa: A002 - the name SQL gives it
        columns: Sequence[str] | None = None,
        mode: str | None = None,
        recall_target: float | None = None,
        as_of: Any = None,
        max_distance: float | None = None,
        deleted: Any = None,
        **options: Unpack[SearchOptions],
    ) -> SearchHits:
        """Find the k nearest rows to each of many vectors, in one pass over the table.

        Args:
            queries: An array of shape (m, d).
            k: The number of rows for each query.
            metric: As for `search`.
            filter: As for `search`.
            columns: As for `search`.
            mode: As for `search`.
            recall_target: As for `search`.
            as_of: As for `search`.
            max_distance: As for `search`.
            deleted: As for `search`.
            options: As for `search`.

        Returns:
            The same columns as `search`, after the number of the query in ``_hudi_query_index``; ordered by query, then
            by distance.

        Raises:
            InvalidArgumentError: An argument is not allowed.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.search_batch(Q, k=2).num_rows
            6
        """
        tuning = checked_tuning(mode, recall_target, **options)
        asked = self._asked(as_queries(queries), k, metric, filter, as_of, max_distance, tuning)
        return self._search(asked, True, columns, deleted)

    def fetch_rows(self, refs: Iterable[tuple[str, int]], columns: Sequence[str] | None = None) -> pa.Table:
        """Read columns of rows by their places.

        A place is a row of a file, not of the table: a row that was deleted or changed since is returned as it was, as
        long as its file exists.

        Args:
            refs: Pairs of file and row number, as `SearchHits.refs` returns them, in any order; pairs may repeat.
            columns: The columns; by default all except the searched one and Hudi's own, as for `search`.

        Returns:
            A row for each pair, in the caller's order.

        Raises:
            InvalidTypeError: The pairs are not pairs of text and whole number.
            InvalidArgumentError: A file does not belong to this table.
            DataFileError: A file is missing or has no such row.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.fetch_rows(t.search(q, k=5).refs, columns=["id", "title"]).num_rows
            5
        """
        pairs = _pairs(refs)
        snapshot = self._snapshot(self._as_of)
        schema, wanted = snapshot.schema, checked_names(columns)
        names = self._usual(snapshot) if wanted is None else list(dict.fromkeys(wanted))
        spec = ScanSpec(
            table_uri=snapshot.source.uri,
            schema=schema,
            column=vector_column(snapshot, self._column, self.name, 1),
            options=snapshot.source.options,
        )
        names = [spelled(name, schema, self.name) for name in names]
        known = {entry.base_file.uri: entry for entry in snapshot.file_slices if entry.base_file is not None}
        places: dict[str, list[int]] = {}
        for number, (path, _) in enumerate(pairs):
            places.setdefault(normalise(path), []).append(number)
        rows = np.array([row for _, row in pairs], np.int64)

        def read(uri: str) -> pa.Table:
            access = self._access(snapshot, uri, known)
            return open_slice(access, spec, keep=True).rows(rows[places[uri]], names)

        none = pa.schema([(f.name, f.type) for f in spec.fields(names)]).empty_table()
        parts = open_storage(spec.table_uri, spec.options).each(read, places, decodes=True)
        back = np.empty(len(pairs), np.int64)
        if pairs:
            back[np.concatenate(list(places.values()))] = np.arange(len(pairs))
        return pa.concat_tables([none, *parts]).take(pa.array(back))

    @known_arguments()
    def to_reader(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - the name SQL gives it
        batch_size: int = _BATCH_ROWS,
    ) -> pa.RecordBatchReader:
        """Stream the rows of the table to pandas, polars, DuckDB, or anything else that takes Arrow batches.

        Files are read one after another while batches are taken, and a batch ahead, so that few batches are in memory
        at once. The rows are those of the snapshot that searches see.

        Args:
            columns: The columns; by default, and for ``["*"]``, all except Hudi's own, whose names begin with
                ``_hoodie_``. Vectors are lists.
            filter: A condition over the table's columns, as for `search`; files that it excludes are not read.
            batch_size: The largest number of rows of a batch.

        Returns:
            The reader, to be read once. Rows have no particular order.

        Raises:
            InvalidArgumentError: An argument is not allowed.
            UnsupportedTableError: A slice of the table can only be read by Spark.
            DataFileError: A data file cannot be read; also while batches are taken, where Hudi's clean removed it.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     sum(batch.num_rows for batch in t.to_reader(["id", "title"], filter="price < 100"))
            100
        """
        rows, wanted = as_count(batch_size, "batch_size") or _BATCH_ROWS, checked_names(columns)
        plan = self._plan_of_all(filter)
        return row_reader(plan, self._own_names(plan.snapshot, wanted), rows)

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the rows, each as a dictionary; `to_reader` has columns to choose, a filter, and no limit.

        Args:
            limit: The number of rows to return, of those that are read first; None for all rows of a table that has
                at most 100,000.

        Returns:
            The rows, in no particular order.

        Raises:
            InvalidArgumentError: The limit is not allowed, or there is none and the table has more than 100,000 rows.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     len(t.rows(limit=3)), list(t.rows(limit=1)[0])
            (3, ['id', 'title', 'price', 'country', 'embedding', 'image', 'words'])
        """
        found: list[dict[str, Any]] = self._first_rows(limit).to_pylist()
        return found

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Return the rows as a DataFrame of pandas; ``to_reader().read_pandas()`` has no limit.

        Args:
            limit: As for `rows`.

        Returns:
            The rows, in no particular order.

        Raises:
            InvalidArgumentError: As for `rows`.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.to_pandas().shape
            (200, 7)
        """
        return self._first_rows(limit).to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the rows of `to_reader` to other libraries of Arrow, as a PyCapsule."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Give the columns of `to_reader` to other libraries of Arrow, as a PyCapsule."""
        snapshot = self._snapshot(self._as_of)
        fields = [snapshot.schema.field(name) for name in self._own_names(snapshot, None)]
        return pa.schema([(field.name, field.type) for field in fields]).__arrow_c_schema__()

    def _first_rows(self, limit: Any) -> pa.Table:
        most = as_count(limit, "limit")
        found = with_rows(self.to_reader(), _MOST_ROWS + 1 if most is None else most)
        if most is None and found.num_rows > _MOST_ROWS:
            raise InvalidArgumentError(
                f"'{self.name}' has more than {_MOST_ROWS:,} rows; give a limit, or read batches with to_reader"
            )
        return found

    def _plan_of_all(self, text: Any) -> SearchPlan:
        """Return a plan that reads all rows that pass a filter, without an index.

        Raises UnsupportedTableError if only Spark can read one of its slices.
        """
        snapshot = self._snapshot(self._as_of)
        for gone in self._left_out(None):
            snapshot = without_deleted(snapshot, gone)
        dimension = vector_column(snapshot, self.column, self.name, 1).dimension
        asked = self._asked(np.zeros((1, dimension)), 1, "l2", text, None, None, Tuning("exact"))
        plan = asked.plan(snapshot, ())
        require_readable(plan)
        return plan

    def _own_names(self, snapshot: Snapshot, wanted: tuple[str, ...] | None) -> list[str]:
        """Return the columns of a stream, as the table spells them; None and ``["*"]`` are all but Hudi's own."""
        if wanted == ():
            raise InvalidArgumentError("columns is an empty list; name a column, or leave columns out")
        own = [name for name in snapshot.schema.names if not name.startswith("_hoodie_")]
        named = [name for one in wanted or ("*",) for name in (own if one == "*" else [one])]
        return list(dict.fromkeys(spelled(name, snapshot.schema, self.name) for name in named))

    def to_spark(self, spark: SparkSession, hits: SearchHits | pa.Table) -> DataFrame:
        """Convert the rows found to a DataFrame of one partition, in their order.

        Args:
            spark: A session.
            hits: The result of a search, or any Arrow table.

        Returns:
            The DataFrame, lazy.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.to_spark(spark, t.search(q, k=5, columns=["id"])).columns
            ['id', '_distance']
        """
        return one_partition(spark, hits.table if isinstance(hits, SearchHits) else hits)

    def fetch_rows_to_spark(
        self, spark: SparkSession, refs: Iterable[tuple[str, int]], columns: Sequence[str] | None = None
    ) -> DataFrame:
        """Read columns of rows by their places, as `fetch_rows` does, into a DataFrame of one partition.

        Args:
            spark: A session.
            refs: As for `fetch_rows`.
            columns: As for `fetch_rows`.

        Returns:
            The DataFrame, in the caller's order; its rows are read now.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     t.fetch_rows_to_spark(spark, t.search(q, k=5).refs, columns=["id", "title"]).count()
            5
        """
        return one_partition(spark, self.fetch_rows(refs, columns))

    def _asked(
        self, vectors: Any, k: Any, metric: Any, text: Any, as_of: Any, max_distance: Any, tuning: Tuning
    ) -> Asked:
        point = self._as_of if as_of is None else as_of
        return Asked.of(
            self.name,
            self._column or None,
            vectors,
            k,
            metric,
            text,
            max_distance,
            point,
            self._options,
            self._zone,
            tuning,
        )

    def _search(self, asked: Asked, batch: bool, columns: Any, deleted: Any) -> SearchHits:
        vectors, tuning = asked.vectors, asked.tuning
        wanted, left_out = checked_names(columns), self._left_out(deleted)

        def answer(chosen: Snapshot) -> SearchHits:
            snapshot = chosen
            for gone in left_out:
                snapshot = without_deleted(snapshot, gone)
            names = self._names(snapshot, wanted, tuning.grouping is not None)
            if len(vectors):
                found = asked.find(snapshot, self._known_indexes(snapshot, tuning), running, names)
                return hits_of(found, names, batch)
            dimension = vector_column(snapshot, self._column, self.name, 1).dimension
            none = replace(asked, vectors=np.empty((0, dimension), np.float64))
            return hits_of(none.find(snapshot, (), running), names, batch)

        kept = self._snapshots()
        with counted(self._is_counted), failure_heard(self._hudi_table, "local") as running:
            return kept.answer(asked.as_of, answer)

    def _left_out(self, deleted: Any) -> list[Deleted]:
        """Return the rows that the caller declared deleted at opening and in this search; [] for Hudi and Lance tables.

        Raises InvalidArgumentError if `deleted` is given for such a table.
        """
        if self._deleted is not None:
            return [self._deleted, checked_deleted(deleted)]
        if deleted is not None:
            raise InvalidArgumentError(
                f"deleted is for searches of files and of Delta tables, and '{self.name}' is neither; use a filter"
            )
        return []

    def _forget_indexes(self) -> None:
        """Make the next search look for indexes again: an index may be made or refreshed without a commit."""
        self._looked_for.forget(lambda _: True)

    def _known_indexes(self, snapshot: Snapshot, tuning: Tuning) -> Sequence[Index]:
        """Return the indexes of the column, found once for each choice of a snapshot; [] for an exact search."""
        if tuning.settled(self._options).mode == "exact":
            return []
        key = snapshot.identity
        known = self._indexes.get(key)
        if known is None or not self._looked_for.get(key):
            known = self._look_for_indexes(snapshot)
            self._indexes.put(key, known)
            self._looked_for.put(key, True)
        return known

    def _look_for_indexes(self, snapshot: Snapshot) -> Sequence[Index]:
        name = self._searched(snapshot)
        if self._deleted is None:
            return known_indexes(snapshot.source, name, self._options, Tuning("auto"))
        directory = external_directory(self._options)
        return [] if directory is None else external_indexes(snapshot, name, directory)

    def _usual(self, snapshot: Snapshot) -> list[str]:
        """Return the columns that are read where none are named: all except the searched one and Hudi's own."""
        searched = self._searched(snapshot)
        return [name for name in snapshot.schema.names if name != searched and not name.startswith("_hoodie_")]

    def _names(self, snapshot: Snapshot, wanted: tuple[str, ...] | None, grouped: bool) -> list[str]:
        """Return the columns to read, as the table spells them; None means those of `_usual`.

        `grouped` says that the search adds the rank of groups. Raises InvalidArgumentError if one of them has a name
        that the search adds.
        """
        added = (_DISTANCE, _QUERY) + ((GROUP_RANK,) if grouped else ())
        asked = ("*",) if wanted is None else wanted
        named = [name for one in asked for name in (self._usual(snapshot) if one == "*" else [one])]
        taken = next((name for name in snapshot.schema.names if name.lower() in added), None)
        if taken is not None and taken.lower() in map(str.lower, named):
            raise InvalidArgumentError(
                f"'{self.name}' has a column '{taken}', the name of a column that the search adds; name other columns"
            )
        return list(dict.fromkeys(spelled(n, snapshot.schema, self.name) for n in named if n not in added))

    def _access(self, snapshot: Snapshot, uri: str, known: Mapping[str, FileSlice]) -> SliceAccess:
        """Return how rows of a file are read.

        Raises InvalidArgumentError if the file does not belong to this table, and DataFileError if it is missing.
        """
        found = known.get(uri)
        # A place is in a base file. Log files and deletions are ignored, so that a row is returned as it was.
        file, constants = (found.base_file, found.constants) if found else (None, ())
        if file is None:
            if not uri.startswith(snapshot.source.uri + "/"):
                raise InvalidArgumentError(f"'{uri}' is no file of '{self.name}'; give places from its searches")
            file = open_storage(uri, snapshot.source.options).info(uri)
        if file is None:
            raise DataFileError(f"the data file '{uri}' is no longer there; search again")
        return SliceAccess(
            FileSlice("", "", "", file, constants=constants), "lance" if uri.endswith(".lance") else "parquet"
        )

    def _snapshot(self, as_of: Any) -> Snapshot:
        return self._snapshots().get(None if as_of is None else parse_as_of(as_of, self._zone))

    def _snapshots(self) -> KeptSnapshots:
        if self._kept is None:
            raise InvalidArgumentError(f"'{self.name}' was closed; open it again with hudi_vector.open")
        return self._kept


@known_arguments()
def open(  # noqa: A001 - hv.open, as files are opened
    table: str | os.PathLike[str] | None = None,
    *,
    column: str | None = None,
    files: Sequence[str | os.PathLike[str]] | None = None,
    delta: str | os.PathLike[str] | None = None,
    lance: str | os.PathLike[str] | None = None,
    version: int | str | None = None,
    deleted: Any = None,
    as_of: Any = None,
    refresh_every: float | None = None,
    index_directory: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    zone: str | None = None,
) -> VectorTable:
    """Open a table for searches without Spark and without a JVM.

    Args:
        table: A Hudi table's base path, in any URI scheme that pyarrow or an installed fsspec package opens.
        column: A VECTOR column, or a list of float, double or int8. If none is named, searches of a Hudi table use the
            one that `hudi_vector.vectors.use` chose, or its only VECTOR column.
        files: Parquet files instead of a table.
        delta: A Delta table instead; needs the extra ``delta``. Rows that its deletion vectors delete are left out.
        lance: A Lance dataset instead.
        version: The version of a Lance dataset, by its number or tag, or of a Delta table, by its number; by default
            the newest.
        deleted: Rows of files or of a Delta table that no search finds: a mapping of file to a bool for each row or to
            row numbers, or pairs of file and row number.
        as_of: An instant of the timeline, or a timestamp, that searches see unless they give another; by default now.
        refresh_every: The seconds after which a search first looks for new commits; by default it never does.
        index_directory: The directory in which `hudi_vector.index.build_if_missing` stored the indexes of files, or of
            a table whose indexes are not under it; by default ``hoodie.vector.index.external.dir`` of the options.
        storage_options: Hadoop's storage settings (``fs.s3a.endpoint`` …); for a Delta table also deltalake's own.
        options: Settings of this package, by key.
        zone: The zone of timestamps without one, in ``filter`` and ``as_of``; by default UTC.

    Returns:
        The table, which is also a context manager.

    Raises:
        InvalidArgumentError: An argument is not allowed, or not exactly one of table, files, delta and lance is given.
        TableNotFoundError: There is no Hudi table, Delta table or Lance dataset at the path.
        UnknownColumnError: The table has no such column.

    Example:
        >>> with hv.open("/tables/products", column="embedding") as t:
        ...     hits = t.search([0.1, 0.2, 0.3], k=5, columns=["id"], filter="price < 100")
    """
    given = [value for value in (table, files, delta, lance) if value is not None]
    if len(given) != 1:
        raise InvalidArgumentError("give exactly one of table, files, delta and lance")
    if deleted is not None and files is None and delta is None:
        raise InvalidArgumentError(
            "deleted names rows of files; a Hudi table knows its own deleted rows, and so does a Lance dataset"
        )
    if version is not None and lance is None and delta is None:
        raise InvalidArgumentError(
            "only a Lance dataset and a Delta table have versions to choose from; leave version out"
        )
    name = as_text(column, "column", allow_null=table is not None)
    conf = as_settings(options, "options")
    settings.require_known(conf)
    set_parallelism(settings.IO_PARALLELISM.read(conf))
    process_cache().resize(settings.CACHE_MAX_BYTES.read(conf))
    kept = {key: conf[key] for key in (settings.CACHE_DIR.key, settings.CACHE_DIR_MAX_BYTES.key) if key in conf}
    of_storage = as_settings(storage_options, "storage_options")
    storage = StorageOptions.of({**of_storage, **kept})
    named_zone = as_zone(zone)
    if index_directory is not None:
        conf[settings.INDEX_EXTERNAL_DIR.key] = absolute(as_text(path_text(index_directory), "index_directory"))
    ahead: IndexesAhead | None = None
    source: NativeTable | PlainFiles | DeltaFiles | LanceDataset
    listed = tuple(files) if isinstance(files, Iterable) and not isinstance(files, str) else files
    if listed is not None:
        source = PlainFiles(listed, storage, name)
    elif delta is not None:
        source = DeltaFiles(as_text(path_text(delta), "delta"), storage, of_storage, name, version)
    elif lance is not None:
        source = LanceDataset(as_text(path_text(lance), "lance"), storage, version)
    else:
        path = as_text(path_text(table), "table")
        place = Source(normalise(path), path, storage)
        ahead = look_ahead(place, name, conf)
        source = NativeTable(place)
    gone = checked_deleted(deleted) if files is not None or delta is not None else None
    every = as_seconds(refresh_every, "refresh_every")
    again = {
        **_place(table=table, files=listed, delta=delta, lance=lance),
        "column": name,
        "version": version,
        "deleted": gone,
        "as_of": as_of,
        "refresh_every": every,
        "storage_options": of_storage,
        "options": conf,
        "zone": named_zone,
    }
    return VectorTable(source, source.source.name, name, as_of, every, conf, named_zone, gone, ahead, again)


def _place(**given: Any) -> dict[str, Any]:
    """Return the argument that names what is opened, in a form that another process understands."""
    named = {name: value for name, value in given.items() if value is not None}
    return {
        name: [absolute(path_text(file)) for file in value] if name == "files" else absolute(path_text(value))
        for name, value in named.items()
    }


def _opened_again(arguments: Mapping[str, Any]) -> VectorTable:
    return open(**arguments)


def hits_of(found: Found, names: list[str], batch: bool) -> SearchHits:
    """Return the rows found with these columns; those of a batch have the numbers of their queries too."""
    columns: dict[str, Any] = {_QUERY: pa.array(found.winners.query)} if batch else {}
    read = found.columns(names) if names else {}
    columns |= {**read, _DISTANCE: pa.array(found.winners.distance)}
    if found.plan.grouping is not None:
        columns[GROUP_RANK] = group_ranks(found.winners.group_rank)
    return SearchHits(pa.table(columns), found.report(names), found.plan, found.winners)


def _places(plan: SearchPlan, winners: Winners) -> pa.Table:
    """Return the places of the rows; NULL for rows that were merged."""
    found, place = np.unique(winners.slice_index, return_inverse=True)
    chosen = [plan.slices[number] for number in found.tolist()]
    files = [
        entry.file_slice.base_file.uri if entry.file_slice.base_file is not None and not entry.is_merged else None
        for entry in chosen
    ]
    paths = pa.array(files, pa.string()).take(pa.array(place))
    merged = np.asarray(paths.is_null())
    return pa.table([paths, pa.array(winners.position, mask=merged)], schema=_REFS)


def _pairs(refs: Any) -> list[tuple[str, int]]:
    try:
        pairs = [(path, row) for path, row in refs]
    except (TypeError, ValueError):
        raise InvalidTypeError(f"refs must be pairs of file and row number, not {refs!r}"[:200]) from None
    for path, row in pairs:
        if not isinstance(path, str) or isinstance(row, bool) or not isinstance(row, (int, np.integer)):
            raise InvalidTypeError(f"refs must be pairs of file and row number; ({path!r}, {row!r}) is none")
        if not -(1 << 63) <= row < 1 << 63:
            raise DataFileError(f"'{path}' has no row {row}; give places from a search")
    return pairs
