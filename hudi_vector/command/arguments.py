"""Arguments that several commands share, and the values that a shell completes for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from hudi_vector.command.groups import METRICS
from hudi_vector.command.rows import FORMATS
from hudi_vector.errors import InvalidArgumentError

__all__ = [
    "among",
    "columns_of",
    "conf",
    "dry_run",
    "form",
    "kinds",
    "marking",
    "metrics",
    "modes",
    "number",
    "other_tables",
    "output",
    "report",
    "several",
    "single_writer",
    "sweeping",
    "table",
    "text",
    "texts",
    "the_table",
]

F = TypeVar("F", bound=Callable[..., Any])
Values = Callable[[click.Context, click.Parameter, str], list[str]]


def several(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that applies several, of which the first is the first in the help."""

    def decorated(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorated


def among(values: Callable[[], Iterable[str]]) -> Values:
    """Return the completion of an option that takes one of some values, which are looked up when a shell asks."""
    return lambda _, __, begun: [value for value in values() if value.startswith(begun)]


def _kinds() -> Iterable[str]:
    from hudi_vector.index.kinds.kinds import KINDS

    return KINDS


def _metrics() -> Iterable[str]:
    from hudi_vector.kernels.metrics import METRICS

    return METRICS


def _modes() -> Iterable[str]:
    from hudi_vector.query.tuning import MODES

    return MODES


def columns_of(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:  # noqa: ARG001 - as click has it
    """Return the columns of the table that the command names, for a shell; none if the table cannot be read."""
    from hudi_vector.errors import HudiVectorError
    from hudi_vector.storage import normalise
    from hudi_vector.table.model import Source
    from hudi_vector.table.native import NativeTable

    # The option that is completed has no value yet, at which click stops, and leaves the first argument where it was.
    named = ctx.params.get("table") or ctx.params.get("named_table") or next(iter(ctx.args), None)
    try:
        names: list[str] = NativeTable(Source(normalise(named), named)).snapshot().schema.names if named else []
    except (HudiVectorError, OSError):
        return []
    before, comma, last = begun.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and not name.startswith("_hoodie_")]


kinds, metrics, modes = among(_kinds), among(_metrics), among(_modes)


def text(name: str, metavar: str, meaning: str, **settings: Any) -> Callable[[F], F]:
    """Return an option that takes a text."""
    return click.option(name, metavar=metavar, help=meaning, **settings)


def texts(name: str, target: str, metavar: str, meaning: str, *, absent: Any = (), **settings: Any) -> Callable[[F], F]:
    """Return an option that may be given several times; the command gets a tuple, or `absent`, as `target`."""
    return click.option(
        name, target, metavar=metavar, multiple=True, help=f"{meaning}; may be repeated",
        callback=lambda _, __, values: values or absent, **settings,
    )  # fmt: skip


def number(name: str, metavar: str, meaning: str, kind: Any = int, **settings: Any) -> Callable[[F], F]:
    """Return an option that takes a number."""
    return click.option(name, metavar=metavar, type=kind, help=meaning, **settings)


def _keep_metrics(ctx: click.Context, _: click.Parameter, file: str | None) -> None:
    ctx.meta[METRICS] = file


conf = texts("--conf", "conf", "KEY=VALUE", "a setting of Spark (spark.…), or of Hudi and this package (hoodie.…)")
form = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
    help="json is one object a line; json and csv have raw values",
)  # fmt: skip
output = several(
    form,
    click.option("-q", "--quiet", is_flag=True, help="print rows and errors only"),
    text("--metrics", "FILE", "write metrics there, for Prometheus", expose_value=False, callback=_keep_metrics),
)


def the_table(table: str | None, named_table: str | None) -> str:
    """Return the table that was given as an argument or as ``--table``; raise InvalidArgumentError without just one.

    That error is raised for a path that is not UTF-8 too, and InvalidTypeError for a blank one, which would be the
    current folder.
    """
    from hudi_vector.arguments import as_text
    from hudi_vector.storage import path_text

    given = [name for name in (table, named_table) if name is not None]
    if len(given) != 1:
        raise InvalidArgumentError("give one table, by its path or its name" + (", not two" if given else ""))
    return as_text(path_text(given[0]), "table")


table = several(
    click.argument("table", required=False, metavar="TABLE"),
    click.option("--table", "named_table", metavar="TABLE", hidden=True),
)
other_tables = texts("--other-table", "other_tables", "PATH", "a table that may refer to this one's blobs")
report = text("--report", "FILE", "write the rows there too, one JSON object a line")
dry_run = click.option("--dry-run", is_flag=True, help="only show what would happen, in the same rows")
single_writer = click.option("--assume-single-writer", is_flag=True, help="promise that no one else writes meanwhile")
marking = several(
    text("--grace", "24h", "how old a file must be"),
    other_tables,
    texts("--managed-root", "managed_roots", "FOLDER", "a folder elsewhere whose files the table owns", absent=None),
    click.option(
        "--ignore-stale-pending", is_flag=True,
        help="let instants that have been pending without a sign of life for 7 days hold nothing back",
    ),
)  # fmt: skip
sweeping = several(
    dry_run,
    click.option("--no-trash", is_flag=True, help="delete for good at once"),
    number("--max-share", "PERCENT", "refuse if more of the bytes would go"),
    number("--max-files", "N", "take no more files than this, the oldest first"),
)
