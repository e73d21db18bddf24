"""The subject of an index job: a table or files, a vector column, and the place of its indexes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from hudi_vector import options
from hudi_vector.arguments import as_text
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTableError
from hudi_vector.index.build import Each, files_at_once, indexable_files
from hudi_vector.index.catalog import Index, indexes_at
from hudi_vector.index.files import segments_folder
from hudi_vector.index.kinds.kinds import kind_named
from hudi_vector.index.locations import IndexHome, IndexPlace, columns_at, in_directory, in_table
from hudi_vector.index.reachable import require_reachable
from hudi_vector.index.verified import verified
from hudi_vector.kernels.metrics import metric_named
from hudi_vector.progress import followed, jobs_followed
from hudi_vector.query.opened.external import external_home, external_scan
from hudi_vector.query.opened.request import spelled, vector_column
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.storage import StorageOptions, normalise, open_storage, parallel, path_text, scheme_of
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.located import locate_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.kernels.metrics import Floats
    from hudi_vector.query.tuning import Tuning
    from hudi_vector.table.model import Snapshot

__all__ = [
    "IndexOptions",
    "IndexSource",
    "IndexSpec",
    "IndexSubject",
    "Place",
    "chosen",
    "chosen_places",
    "indexes_in",
    "the_index",
]


class IndexSource(TypedDict, total=False):
    """The files of an index instead of a Hudi table, and where the index is stored.

    Attributes:
        files: Parquet files, instead of a table.
        delta: A Delta table, instead of a Hudi table.
        directory: The directory of the index, a path or URI that all executors can reach; by default below the table,
            or for files ``hoodie.vector.index.external.dir``.
        storage_options: Hadoop's storage settings for files; the session's by default.
    """

    files: Sequence[str] | None
    delta: str | None
    directory: str | None
    storage_options: Mapping[str, str] | None


class IndexSpec(TypedDict, total=False):
    """The sizes of an index; what is left out is chosen for the table's size.

    Attributes:
        num_partitions: The number of lists of the coarse quantiser; about the square root of the number of rows by
            default.
        num_sub_vectors: For ``ivf_pq``, the number of equal parts that a vector is cut into; by default such that there
            are two bits for each element.
        num_bits: Bits of a code: for ``ivf_pq`` of each part, for ``hnsw`` of each element; 8, the default, or 4. For
            ``ivf_rabitq`` of each element: 1, the default, 2 or 4.
        max_iters: The number of rounds of k-means.
        sample: The number of vectors that the model is trained on; 256 for each list by default.
    """

    num_partitions: int | None
    num_sub_vectors: int | None
    num_bits: int | None
    max_iters: int | None
    sample: int | None


class IndexOptions(IndexSource, IndexSpec, total=False):
    """The further arguments of `create` and `build_if_missing`."""


_DONE = "files gone through for the index"


@dataclass(frozen=True)
class Place:
    """The table or files of a job as they are now, and a vector column.

    Attributes:
        snapshot: The snapshot of the table or files.
        spec: The column, as a scan reads it.
        homes: The places where the column's indexes may be; new indexes go to the first one.
        each: A function like `map` that goes through files, with executors or threads.
    """

    snapshot: Snapshot
    spec: ScanSpec
    homes: tuple[IndexHome, ...]
    each: Each

    def indexes(self) -> list[Index]:
        """Return the column's indexes; segments of files that were rewritten since they were indexed cover nothing."""
        return indexes_in(self.homes, self.snapshot)

    def segments(self) -> frozenset[tuple[str, int]]:
        """Return name and modification time (nanoseconds) of all segments of the column, of any of its indexes."""
        storage = self.snapshot.source.options
        folders = [segments_folder(place.folder) for home in self.homes for place in home.places(storage)]
        listed = (file for folder in folders for file in open_storage(folder, storage).list_files(folder))
        return frozenset((file.name, file.mtime_ns) for file in listed)


@dataclass(frozen=True)
class IndexSubject:
    """The subject of a job: a Hudi table, files or a Delta table, and the directory of the indexes."""

    spark: SparkSession | None
    table: str | None
    files: Sequence[str] | None
    delta: str | None
    directory: str | None
    storage_options: Mapping[str, str] | None
    settings: options.Settings | None = None

    @classmethod
    def of(
        cls,
        spark: SparkSession | options.Settings | None,
        table: Any,
        *,
        files: Any = None,
        delta: Any = None,
        directory: Any = None,
        storage_options: Any = None,
    ) -> IndexSubject:
        """Check everything that can be checked without reading the table, and return the subject.

        Without a session, threads of this process read the files of a table, which is given by its path. Raise
        InvalidArgumentError unless exactly one of table, files and delta is given, or if files have no directory, and
        InvalidTypeError if an argument is not a string or the storage settings are not a mapping of strings.
        """
        settings = spark if isinstance(spark, options.Settings) else None
        spark = None if isinstance(spark, options.Settings) else spark
        table, files, delta, directory = (path_text(given) for given in (table, files, delta, directory))
        if sum(value is not None for value in (table, files, delta)) != 1:
            raise InvalidArgumentError("give exactly one of table, files and delta")
        if table is not None and spark is None:
            locate_here(table, settings)
        files = list(files) if isinstance(files, Iterable) and not isinstance(files, str) else files
        _require_settings(storage_options)
        place = as_text(directory, "directory", allow_null=True)
        if place is None and table is None:
            place = options.INDEX_EXTERNAL_DIR.in_session(spark) if spark is not None else None
            if not place:
                raise InvalidArgumentError(
                    f"an index of files needs a directory; give directory=… or set {options.INDEX_EXTERNAL_DIR.key}"
                )
        return cls(spark, table, files, delta, place, storage_options, settings)

    def place(self, column: Any) -> Place:
        """Find the table and the vector column, for a job that reads the column.

        Raise InvalidArgumentError if the column's vectors have no common length or executors cannot reach the
        directory, and UnsupportedTableError if only Spark can read the table's files.
        """
        name = as_text(column, "column")
        if self.directory is not None and self.spark is not None:
            context = self.spark.sparkContext
            seen_with = self._options(self.directory)
            require_reachable(self.directory, str(context.master), context.defaultParallelism, seen_with, self._each())
        if self.table is not None:
            return self._of_table(name)
        assert self.directory is not None
        snapshot = self._files(name)
        spec = external_scan(snapshot, name)
        homes = (external_home(snapshot, spec.column.name, self.directory),)
        return Place(snapshot, spec, homes, self._each(files_at_once(snapshot)))

    def indexes(self, column: str | None) -> tuple[Snapshot, list[Index]]:
        """Return the snapshot of the table or files, and the indexes of a column, or of all columns for None.

        A column that the table no longer has can be named if it still has an index.
        """
        snapshot, homes = self.homes(column)
        return snapshot, indexes_in(homes, snapshot)

    def homes(self, column: str | None) -> tuple[Snapshot, list[IndexHome]]:
        """Return the snapshot, and where the indexes of a column are, as for `indexes`."""
        wanted = None if column is None else as_text(column, "column")
        if self.table is not None:
            return self._of_columns(wanted)
        assert self.directory is not None
        snapshot = self._files(wanted)
        columns = columns_at(external_home(snapshot, "", self.directory).root, snapshot.source.options)
        if wanted is not None:
            known = wanted in columns
            columns = [wanted if known else spelled(wanted, snapshot.schema, snapshot.source.name)]
        return snapshot, [external_home(snapshot, name, self.directory) for name in columns]

    def answers(
        self, at: Place, index: Index, queries: Floats, k: int, tuning: Tuning
    ) -> tuple[list[Floats], list[float]]:
        """Return the distances that each query finds, ascending, and the seconds that each search takes.

        `queries` has shape (m, d), and each query wants `k` rows. The index is used as `tuning` says.
        """
        by_spark = self.directory is None and self.spark is not None
        search = self._search_by_spark(index, k, tuning) if by_spark else _search(at, index, k, tuning)
        search(queries[:1])  # warms up, so that one-time reads are not measured
        found, seconds = [], []
        for query in queries:
            begun = time.perf_counter()
            found.append(search(query[None, :]))
            seconds.append(time.perf_counter() - begun)
        return found, seconds

    def _search_by_spark(self, index: Index, k: int, tuning: Tuning) -> Any:
        from hudi_vector.spark.resolve import resolve_name
        from hudi_vector.spark.search.table_functions import checked_search

        assert self.spark is not None
        assert self.table is not None
        known, target = index.manifest, resolve_name(self.spark, self.table)
        search = checked_search(
            self.spark, target, known.column, known.dimension, k=k, metric=known.metric, tuning=tuning
        )
        return lambda queries: search.run(queries, []).distance

    def _of_table(self, name: str) -> Place:
        assert self.table is not None
        if self.spark is None:
            return self._of_table_here(name)
        from hudi_vector.spark.resolve import resolve_name
        from hudi_vector.spark.search.table_functions import checked_search

        target = resolve_name(self.spark, self.table)
        target.table()
        search = checked_search(self.spark, target, name, None, k=1)
        _require_vectors(search.column, self.table)
        plan = search.plan(search.column.dimension, {"hoodie.vector.search.mode": "exact"})
        assert plan is not None
        _require_direct(plan.snapshot, self.table)
        homes = self._index_places(plan.spec.table_uri, plan.spec.column.name)
        return Place(plan.snapshot, plan.spec, homes, self._each(files_at_once(plan.snapshot)))

    def _of_columns(self, column: str | None) -> tuple[Snapshot, list[IndexHome]]:
        assert self.table is not None
        if self.spark is None:
            return self._of_columns_here(column)
        from hudi_vector.spark.columns import vector_column
        from hudi_vector.spark.resolve import resolve_name
        from hudi_vector.spark.snapshots import snapshot_for

        target = resolve_name(self.spark, self.table)
        source = target.table()
        columns = sorted({n for h in self._index_places(source.uri, "") for n in columns_at(h.root, source.options)})
        if column is not None:
            # The column may be one that the table no longer has, as long as it has an index.
            known = column in columns
            found = column if known else vector_column(target.schema, column, target.label, None).name
            columns = [found if known else dict(target.physical)[found]]
        snapshot = snapshot_for(self.spark, source, None)
        return snapshot, [home for name in columns for home in self._index_places(source.uri, name)]

    def _of_table_here(self, name: str) -> Place:
        """Return the table and a column of it, as the table's own schema describes it, without a session."""
        snapshot = self._snapshot_here()
        _require_direct(snapshot, snapshot.source.name)
        column = vector_column(snapshot, name, snapshot.source.name, 0)
        _require_vectors(column, snapshot.source.name)
        has_keys = snapshot.config.populates_meta_fields
        options = snapshot.source.options
        spec = ScanSpec(snapshot.source.uri, snapshot.schema, column, has_keys=has_keys, options=options)
        homes = self._index_places(snapshot.source.uri, column.name)
        return Place(snapshot, spec, homes, self._each(files_at_once(snapshot)))

    def _of_columns_here(self, column: str | None) -> tuple[Snapshot, list[IndexHome]]:
        snapshot = self._snapshot_here()
        uri, options = snapshot.source.uri, snapshot.source.options
        columns = sorted({n for home in self._index_places(uri, "") for n in columns_at(home.root, options)})
        if column is not None:
            columns = [column if column in columns else spelled(column, snapshot.schema, snapshot.source.name)]
        return snapshot, [home for name in columns for home in self._index_places(uri, name)]

    def _snapshot_here(self) -> Snapshot:
        root, _, storage = locate_here(self.table, self.settings)
        return NativeTable(Source(root, str(self.table), storage)).snapshot()

    def _index_places(self, table_uri: str, column: str) -> tuple[IndexHome, ...]:
        """Return where a column's indexes may be, the place of new ones first.

        This is the named directory alone, or else the table's own folder and, if set, the session's directory.
        """
        if self.directory is not None:
            return (in_directory(self.directory, table_uri, column),)
        own = in_table(table_uri, column)
        session = self.settings if self.spark is None else self.spark
        directory = None if session is None else options.INDEX_EXTERNAL_DIR.in_session(session)
        return (own, in_directory(directory, table_uri, column)) if directory else (own,)

    def _files(self, column: str | None) -> Snapshot:
        from hudi_vector.query.files.plain_files import DeltaFiles, PlainFiles

        if self.files is not None:
            first = next(iter(self.files), "") if isinstance(self.files, list) else ""
            return PlainFiles(self.files, self._options(str(first)), column).snapshot()
        uri = as_text(self.delta, "delta")
        return DeltaFiles(uri, self._options(uri), dict(self.storage_options or {}), column).snapshot()

    def _options(self, uri: str) -> StorageOptions:
        if self.storage_options is not None or self.spark is None:
            return StorageOptions.of(self.storage_options or {})
        from hudi_vector.spark.resolve import storage_options

        elsewhere = [place for place in (uri, self.directory) if place and scheme_of(place) != "file"]
        return storage_options(self.spark, normalise(elsewhere[0] if elsewhere else uri))

    def _each(self, at_once: int = 1) -> Each:
        """Return the function that goes through the base files; `at_once` of them are worked on in each task."""
        if self.spark is None:
            from hudi_vector.query.local import threads_of

            threads = threads_of({})
            gone_through: Callable[..., Any] = threads.map if threads else map
            if at_once > 1:
                gone_through = partial(parallel.each, most=at_once)
            return lambda run, items: list(followed(gone_through(run, items), len(items), _DONE))
        from hudi_vector.executors.distributed import on_executors

        context = self.spark.sparkContext
        by_tasks = on_executors(context, at_once)

        def each(run: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
            # Each phase is one Spark job over all files: its results arrive together, so its tasks show the progress.
            with jobs_followed(context, len(items), _DONE):
                return by_tasks(run, items)

        return each


def the_index(at: Place, kind: str | None, metric: str | None) -> Index:
    """Return the one index of a column with a kind and a metric; None means any.

    If there are equal indexes next to the table and in the session's directory, return the one next to the table. Raise
    InvalidArgumentError if no index or several fit.
    """
    found = at.indexes()
    # Reversed, so that the index next to the table, which comes first, wins over an equal one elsewhere.
    alike = {(index.manifest.kind, index.manifest.metric): index for index in reversed(chosen(found, kind, metric))}
    fitting = list(alike.values())
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{m.manifest.metric}-{m.manifest.kind}" for m in found) or "none"
    raise InvalidArgumentError(
        f"column '{at.spec.column.name}' has {len(fitting)} such indexes (there are: {there}); "
        + ("name one by metric and kind" if fitting else "make one with hudi_vector.index.create")
    )


def indexes_in(homes: Sequence[IndexHome], snapshot: Snapshot) -> list[Index]:
    """Return the indexes of several homes; segments of files rewritten since they were indexed cover nothing."""
    storage, files = snapshot.source.options, indexable_files(snapshot)
    found = [index for home in homes for index in indexes_at(home, storage)]
    return [verified(index, files, storage) if index.key else index for index in found]


def chosen(indexes: Sequence[Index], kind: str | None, metric: str | None) -> list[Index]:
    """Return the indexes of a kind and for a metric; None means any.

    Raise InvalidArgumentError if there is no such kind or metric.
    """
    kind, metric = _asked(kind, metric)
    return [m for m in indexes if kind in (None, m.manifest.kind) and metric in (None, m.manifest.metric)]


def chosen_places(
    homes: Sequence[IndexHome], kind: str | None, metric: str | None, options: StorageOptions
) -> list[IndexPlace]:
    """Return the places of indexes as for `chosen`, with those that have files but no manifest."""
    kind, metric = _asked(kind, metric)
    places = [place for home in homes for place in home.places(options)]
    return [place for place in places if kind in (None, place.kind) and metric in (None, place.metric)]


def _asked(kind: str | None, metric: str | None) -> tuple[str | None, str | None]:
    """Return the names of a kind and a metric, or raise InvalidArgumentError."""
    return None if kind is None else kind_named(kind).name, None if metric is None else metric_named(metric)


def _require_vectors(column: VectorColumn, table: str) -> None:
    """Raise InvalidArgumentError if a column does not declare the length of its vectors."""
    if not column.is_vector:
        raise InvalidArgumentError(
            f"column '{column.name}' of '{table}' is an array; an index is made of a VECTOR column, whose dimension "
            "the table knows"
        )


def _require_direct(snapshot: Snapshot, table: str) -> None:
    """Raise UnsupportedTableError if only Spark can read the files of a table."""
    if snapshot.needs_spark is not None:
        raise UnsupportedTableError(
            f"'{table}' can have no index: only Spark can read its files, since {snapshot.needs_spark}"
        )


def _require_settings(storage_options: Any) -> None:
    if storage_options is None:
        return
    if not isinstance(storage_options, Mapping):
        raise InvalidTypeError(f"storage_options must be a dictionary of texts, not {storage_options!r}")
    # Values may be secrets, so messages never contain them.
    wrong = [key for key, value in storage_options.items() if not (isinstance(key, str) and isinstance(value, str))]
    if wrong:
        raise InvalidTypeError(f"storage_options must be a dictionary of texts; the setting {wrong[0]!r} is none")


def _search(at: Place, index: Index, k: int, tuning: Tuning) -> Any:
    """Return a function that searches exactly this snapshot with this index, in this process."""
    from hudi_vector.query.opened.request import Asked

    known, name = index.manifest, at.snapshot.source.name

    def search(queries: Floats) -> Floats:
        asked = Asked.of(name, known.column, queries, k, known.metric, None, None, None, None, None, tuning)
        return asked.find(at.snapshot, [index]).winners.distance

    return search
