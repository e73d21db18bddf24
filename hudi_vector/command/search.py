"""Searches of one table without Spark, their plans, and their receipts: ``hv.open`` and ``hv.replay`` as commands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from hudi_vector.command.arguments import (
    among,
    columns_of,
    conf,
    form,
    metrics,
    modes,
    number,
    output,
    several,
    table,
    text,
    texts,
    the_table,
)
from hudi_vector.command.endings import DONE, PROBLEMS, REFUSED, WRONG_USE, Ended, say
from hudi_vector.command.groups import HELP, Command
from hudi_vector.command.queries import is_key, query_of_file, query_of_row, query_of_text
from hudi_vector.command.rows import write_rows, write_text
from hudi_vector.command.sessions import settings_alone
from hudi_vector.errors import (
    DimensionMismatchError,
    InstantNotAvailableError,
    InvalidArgumentError,
    InvalidVectorError,
    UnsupportedTableError,
    number_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from hudi_vector.options import Settings
    from hudi_vector.query.opened.vector_table import SearchHits, VectorTable

__all__ = ["explain", "replay", "search"]

_META = "_hoodie_"

_arguments = several(
    table,
    texts("--file", "files", "PATH", "a Parquet file, in place of a table", absent=None),
    text("--delta", "PATH", "a Delta table, in place of a table"),
    text("--lance", "PATH", "a Lance dataset, in place of a table"),
    text("--column", "NAME", "the vector column; the only one by default", shell_complete=columns_of),
    text("--query", "'[0.1, 0.2]'", "the vector"),
    text("--query-file", "FILE", "a vector, or several, in JSON or .npy; - is standard input"),
    text("--like", "KEY", "the vector of the row with this record key, without that row"),
    number("-k", "N", "how many rows", default=10, show_default=True),
    text("--metric", "METRIC", "cosine, l2, dot_product or hamming", default="cosine", show_default=True,
         shell_complete=metrics),
    text("--filter", "'price < 100'", "a condition over columns, applied first"),
    text("--columns", "id,name", "the columns to show, or '*'; by default those of plain values",
         shell_complete=columns_of),
    text("--as-of", "INSTANT", "search what was visible then: an instant or a timestamp"),
    text("--mode", "MODE", "auto, exact or approximate", shell_complete=modes),
    number("--recall-target", "SHARE", "the share of the nearest rows to find, such as 0.95", float),
    number("--max-distance", "NUMBER", "the largest distance to show", float),
    text("--algorithm", "KIND", "brute_force, or the kind of index to use",
         shell_complete=among(lambda: ["brute_force", *_kinds()])),
    number("--nprobes", "N", "how many lists of the index are read"),
    number("--refine-factor", "N", "candidates for each row that are compared exactly"),
    text("--timeout", "30s", "the longest time that it may take"),
    text("--group-by", "doc_id,lang", "find the k nearest groups by these columns", shell_complete=columns_of),
    number("--per-group", "N", "how many rows of each group; 1 by default"),
    text("--group-nulls", "drop", "leave out rows with NULL in these columns"),
    text("--directory", "PATH", "where indexes lie that are not under their table"),
    conf,
)  # fmt: skip


def _kinds() -> Sequence[str]:
    from hudi_vector.index.kinds.kinds import KINDS

    return list(KINDS)


@click.command(cls=Command, context_settings=HELP)
@_arguments
@text("--receipt", "FILE", "write the receipt there, for replay")
@output
def search(form: str, quiet: bool, receipt: str | None, **given: Any) -> int:
    """Find the nearest rows to a vector, without Spark."""
    asked = _Asked.of(given)
    if asked.query is None and asked.like is None:
        raise InvalidArgumentError("give the vector to search for: --query, --query-file or --like")
    if receipt is not None:
        _require_writable(receipt)
    with asked.opened() as table, _query_is_argument():
        query, more = asked.question(table)
        run = table.search_batch if asked.is_batch else table.search
        hits = run(query, asked.k, columns=asked.shown(), **more)
        if receipt is not None:
            hits.report.receipt().save(receipt)
    write_rows(list(_rows(hits, plain_only=asked.columns is None)), form)
    if not quiet:
        say(_summary(hits))
    return DONE


@click.command(cls=Command, context_settings=HELP)
@_arguments
@form
def explain(form: str, **given: Any) -> int:
    """Show the plan of a search, without running it.

    Without a query, the plan of any query.
    """
    import hudi_vector as hv

    asked = _Asked.of(given)
    with asked.opened() as table, _query_is_argument():
        query, more = asked.question(table)
        run = table.search_batch if asked.is_batch else table.search
        plan = hv.explain(run, query, asked.k, columns=asked.shown(), **more)
    if form == "table":
        write_text(plan)
    else:
        write_rows([{"plan": plan}], form)
    return DONE


@click.command(cls=Command, context_settings=HELP)
@click.argument("file", metavar="FILE")
@text("--table", "PATH", "the table, if it has moved")
@text("--query-file", "FILE", "the vector, if the receipt has its hash alone, in JSON or .npy")
@conf
@output
def replay(form: str, quiet: bool, file: str, table: str | None, query_file: str | None, conf: tuple[str, ...]) -> int:
    """Search again as a receipt says, without Spark, and compare.

    Shows the rows that differ, if any. Exit codes: 0 the same answer, 1 another one, 2 no receipt or a changed one,
    3 the files of that instant are gone.
    """
    import hudi_vector as hv

    vector = None if query_file is None else query_of_file(query_file)
    try:
        with _query_is_argument():
            again = hv.replay(settings_alone(conf), file, vector, table=table)
    except (InstantNotAvailableError, UnsupportedTableError) as problem:
        raise Ended(REFUSED, str(problem)) from problem
    if again.differences:
        write_rows(again.rows(), form)
    if not quiet:
        for line in again.lines():
            say(line)
    return DONE if again.same else PROBLEMS


@contextmanager
def _query_is_argument() -> Iterator[None]:
    """Make a vector that cannot be searched for wrong use: for other commands it is data, whose problems they find."""
    try:
        yield
    except (DimensionMismatchError, InvalidVectorError) as problem:
        raise Ended(WRONG_USE, str(problem)) from problem


def _require_writable(receipt: str) -> None:
    """Raise InvalidArgumentError if the receipt cannot be written, before there is a search to write it of."""
    from hudi_vector.table.other_files import require_outside

    folder = os.path.dirname(receipt) or "."
    # What is there, such as a pipe, is written to in place.
    place = receipt if os.path.exists(receipt) else folder
    if os.path.isdir(receipt) or not os.path.isdir(folder) or not os.access(place, os.W_OK):
        raise InvalidArgumentError(
            f"the receipt cannot be written to '{receipt}'; name a file in a directory that this process may write to"
        )
    require_outside(receipt, "the receipt")


@dataclass(frozen=True)
class _Asked:
    """The arguments of a command that searches: the place, the query, and those that go to the search as they are."""

    table: str | None
    place: Mapping[str, Any]
    column: str | None
    query: Any
    is_batch: bool
    like: str | None
    k: int
    columns: str | None
    filter: str | None
    as_of: str | None
    settings: Settings
    tuning: Mapping[str, Any]

    @classmethod
    def of(cls, given: dict[str, Any]) -> _Asked:
        """Check which place and which query were given."""
        table, named = given.pop("table"), given.pop("named_table")
        others = {name: given.pop(name) for name in ("files", "delta", "lance")}
        place = {name: value for name, value in others.items() if value is not None}
        if len(place) > 1 or (place and (table or named)):
            raise InvalidArgumentError("give one of a table, --file, --delta and --lance")
        text, file, like = (given.pop(name) for name in ("query", "query_file", "like"))
        if sum(value is not None for value in (text, file, like)) > 1:
            raise InvalidArgumentError("give one of --query, --query-file and --like")
        query = query_of_text(text) if text is not None else None if file is None else query_of_file(file)
        if "files" in place:
            place["files"] = list(place["files"])
        place["index_directory"] = given.pop("directory")
        given["group_by"] = None if given["group_by"] is None else _named(given["group_by"])
        kept = {name: given.pop(name) for name in ("column", "k", "columns", "filter", "as_of")}
        settings = settings_alone(given.pop("conf"))
        name = the_table(table, named) if len(place) == 1 else None
        is_batch = query is not None and hasattr(query[0], "__len__")
        return cls(
            table=name, place=place, query=query, is_batch=is_batch, like=like, settings=settings, tuning=given, **kept
        )

    def opened(self) -> VectorTable:
        """Open the table, files or dataset, with its only vector column if none was named."""
        import hudi_vector as hv

        column = self._only_column() if self.column is None else self.column
        of_hudi = {key: value for key, value in self.settings.values.items() if key.startswith("hoodie.")}
        storage = {
            key: value for key, value in self.settings.values.items() if not key.startswith(("hoodie.", "spark."))
        }
        return hv.open(self.table, column=column, options=of_hudi, storage_options=storage, **self.place)

    def question(self, table: VectorTable) -> tuple[Any, dict[str, Any]]:
        """Return the query, any query if none was given, and the further arguments of the search."""
        more = {**self.tuning, "filter": self.filter, "as_of": self.as_of}
        if self.query is not None:
            return self.query, more
        dimension = self._dimension(table.column)
        if self.like is None:
            return [1.0] * dimension, more
        others = is_key(self.like).replace(" = ", " <> ", 1)
        more["filter"] = others if self.filter is None else f"({self.filter}) AND {others}"
        return query_of_row(table, dimension, self.like, self.as_of), more

    def shown(self) -> list[str]:
        """Return the columns to read: those that were named, or else those of plain values."""
        if self.columns is not None:
            return _named(self.columns)
        if self.table is None:
            return ["*"]
        schema = self._schema()
        return [each.name for each in schema if not each.name.startswith(_META) and _is_plain(each.type)]

    def _schema(self) -> pa.Schema:
        from hudi_vector.storage import StorageOptions, normalise
        from hudi_vector.table.model import Source
        from hudi_vector.table.native import NativeTable

        assert self.table is not None
        native = NativeTable(Source(normalise(self.table), self.table, StorageOptions.of(self.settings.values)))
        return native.schema(native.first_timeline())

    def _only_column(self) -> str:
        """Return the vector column of a Hudi table that has one; raise InvalidArgumentError with their names if not."""
        found = list(self._vectors())
        if len(found) == 1:
            return found[0]
        known = f"'{self.table}' has the vector columns {', '.join(found)}" if found else "no VECTOR column is declared"
        raise InvalidArgumentError(f"name the vector column with --column: {known}")

    def _vectors(self) -> dict[str, int]:
        """Return the length of the vectors of each VECTOR column that a Hudi table declares; none for other sources."""
        from hudi_vector.read.conform import vector_type

        fields = [] if self.table is None else [(each.name, vector_type(each)) for each in self._schema()]
        return {name: vector.dimension for name, vector in fields if vector is not None}

    def _dimension(self, column: str) -> int:
        """Return the length of the vectors of a column, as the table declares it."""
        by_name = {name.lower(): length for name, length in self._vectors().items()}
        if column.lower() not in by_name:
            raise InvalidArgumentError(
                f"'{column}' does not declare how long its vectors are, as a VECTOR column of a Hudi table does; "
                "give --query or --query-file"
            )
        return by_name[column.lower()]


def _named(text: str) -> list[str]:
    """Return the names of columns that commas separate."""
    return [name.strip() for name in text.split(",")]


def _is_plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _rows(hits: SearchHits, *, plain_only: bool) -> Iterator[dict[str, Any]]:
    shown = hits.table
    if plain_only:
        shown = shown.select([each.name for each in shown.schema if _is_plain(each.type)])
    names, columns = shown.column_names, [_values(name, shown.column(name)) for name in shown.column_names]
    yield from (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _values(name: str, column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, times that Python has no value for as texts: after 9999, or with nanoseconds."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        number = pa.int64() if pa.types.is_duration(column.type) else column.type
        if not pa.types.is_nested(number):
            return list(column.cast(number).cast(pa.string()).to_pylist())
        raise InvalidArgumentError(
            f"column '{name}' holds times after the year 9999 or with nanoseconds; name other columns with --columns"
        ) from None


def _summary(hits: SearchHits) -> str:
    report = hits.report
    took = sum(report.seconds.values()) * 1000
    asked = "" if report.queries == 1 else f" for {number_of(report.queries, 'query')}"
    fewer = f"; fewer than k: {report.why_fewer}" if report.why_fewer else ""
    at = f" at instant {report.instant}" if report.instant else ""
    groups = "" if report.groups is None else f" of {number_of(report.groups, 'group')}"
    return f"{number_of(report.returned, 'row')}{groups}{asked} by {report.metric}{at}, {took:.0f} ms{fewer}"
