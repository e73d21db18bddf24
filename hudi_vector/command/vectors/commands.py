"""Commands that change the embedding model of a table: ``hv.vectors``, of which `find` and `compare` need no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from hudi_vector.command.arguments import (
    columns_of,
    conf,
    metrics,
    number,
    output,
    several,
    table,
    text,
    texts,
    the_table,
)
from hudi_vector.command.endings import DONE, PROBLEMS, say
from hudi_vector.command.groups import HELP, Group
from hudi_vector.command.queries import query_of_file
from hudi_vector.command.rows import write_rows
from hudi_vector.command.sessions import new_session, session_or_settings, settings_for_commits
from hudi_vector.command.vectors.functions import function_named
from hudi_vector.errors import InvalidArgumentError, number_of

__all__ = ["vectors"]

_on_table = several(table, conf, output)
_column = text("--column", "NAME", "the vector column", required=True, shell_complete=columns_of)
_batch_rows = number("--batch-rows", "N", "the most rows of one commit; 100000 by default")
_yes = click.option("--yes", is_flag=True, help="do it; without this, only the price is shown")


@click.group(cls=Group, context_settings=HELP)
def vectors() -> None:
    """Change the embedding model of a table."""


@vectors.make("find")
@_on_table
@text("--column", "NAME", "the vector column, dropped or not", required=True, shell_complete=columns_of)
def _find(column: str, **given: Any) -> int:
    """List the files that hold vectors of a column."""
    import hudi_vector as hv

    name, settings, shape, quiet = _common(given)
    found = hv.vectors.find_vectors(session_or_settings(settings, [name]), name, column)
    said = f"{number_of(len(found), 'data file holds', 'data files hold')} vectors of '{column}'"
    return _show([each.rows()[0] for each in found], [said], shape, quiet)


@vectors.make("add-column")
@_on_table
@text("--column", "NAME", "the name of the new column", required=True)
@text("--vector", "TYPE", "its type, such as 'VECTOR(768)', or its dimension", required=True)
def _add_column(column: str, vector: str, **given: Any) -> int:
    """Add an empty VECTOR column, in one commit."""
    wanted = int(vector) if vector.isdecimal() else vector
    return _changed("add_column", given, lambda change: f"'{change.column}' is {change.vector}", column, wanted)


@vectors.make("use")
@_on_table
@_column
def _use(column: str, **given: Any) -> int:
    """Choose the column for searches that name none."""
    return _changed("use", given, lambda change: f"searches that name no column use '{change.column}'", column)


@vectors.make("backfill")
@_on_table
@_column
@text("--function", "MODULE:NAME", "makes an array of a DataFrame of the sources", required=True)
@texts("--source", "source", "NAME", "a column that it reads", required=True, shell_complete=columns_of)
@_batch_rows
@number("--call-rows", "N", "the most rows that it gets at once; 256 by default")
@_yes
def _backfill(column: str, function: str, source: Sequence[str], **given: Any) -> int:
    """Fill the vectors that are missing, by a function.

    Without --yes, only the price is shown. A module in the working directory is sent to Spark's workers; any other has
    to be installed there.
    """
    embed = function_named(function)
    return _written("backfill", given, column, embed, source=list(source))


@vectors.make("drop-column")
@_on_table
@_column
@_batch_rows
@_yes
def _drop_column(column: str, **given: Any) -> int:
    """Drop a column with its vectors and indexes.

    Without --yes, only the price is shown.
    """
    return _written("drop_column", given, column)


@vectors.make("compare")
@_on_table
@text("--old", "NAME", "the old vector column", required=True, shell_complete=columns_of)
@text("--new", "NAME", "the new vector column", required=True, shell_complete=columns_of)
@text("--old-queries", "FILE", "the questions as vectors of the old model, in JSON or .npy", required=True)
@text("--new-queries", "FILE", "the same questions as vectors of the new model", required=True)
@number("-k", "N", "how many rows of each search", default=10, show_default=True)
@text("--labels", "FILE", 'the right keys of each question, as JSON: [["a"], []]')
@text("--key", "NAME", "the column whose values name rows; the record key by default", shell_complete=columns_of)
@text("--metric", "METRIC", "cosine, l2, dot_product or hamming", default="cosine", shell_complete=metrics)
@text("--filter", "'price < 100'", "a condition over columns, for both searches")
@text("--as-of", "INSTANT", "search what was visible then: an instant or a timestamp")
def _compare(old: str, new: str, old_queries: str, new_queries: str, labels: str | None, **given: Any) -> int:
    """Ask two columns the same questions."""
    import hudi_vector as hv

    asked = [_several_queries(file) for file in (old_queries, new_queries)]
    right = None if labels is None else _labels_of(labels)
    name, settings, shape, quiet = _common(given)
    wanted = {key: value for key, value in given.items() if value is not None}
    where = session_or_settings(settings, [name])
    result = hv.vectors.compare(where, name, old, new, *asked, labels=right, **wanted)
    return _show(result.rows(), result.lines(), shape, quiet)


def _several_queries(file: str) -> Any:
    """Return the vectors of a file, also where it holds one."""
    found = query_of_file(file)
    return found if hasattr(found[0], "__len__") else [found]


def _labels_of(file: str) -> Any:
    try:
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)
    except (OSError, ValueError) as problem:  # what is not UTF-8 is a ValueError too
        raise InvalidArgumentError(f"the labels in '{file}' cannot be read: {problem}") from None


def _common(given: dict[str, Any]) -> tuple[str, tuple[str, ...], str, bool]:
    """Take the arguments of every command out of those given: the table, the settings, the format, and quiet."""
    name = the_table(given.pop("table"), given.pop("named_table"))
    return name, given.pop("conf"), given.pop("form"), given.pop("quiet")


def _show(rows: list[dict[str, Any]], lines: Iterable[str], form: str, quiet: bool) -> int:
    write_rows(rows, form)
    if not quiet:
        for line in lines:
            say(line)
    return DONE


def _changed(job: str, given: dict[str, Any], said: Callable[[Any], str], *arguments: Any) -> int:
    """Run a change by a commit without rows, and show the commit."""
    import hudi_vector as hv

    name, settings, shape, quiet = _common(given)
    options = settings_for_commits(settings)
    change = getattr(hv.vectors, job)(new_session(settings), name, *arguments, options=options)
    return _show(change.rows(), [said(change) + ("" if change.instant else " already")], shape, quiet)


def _written(job: str, given: dict[str, Any], *arguments: Any, **more: Any) -> int:
    """Show the price of a change that writes rows, or make the change; end with 1 if not all of it was done."""
    import hudi_vector as hv

    name, settings, shape, quiet = _common(given)
    yes, options = given.pop("yes"), settings_for_commits(settings)
    wanted = {key: value for key, value in given.items() if value is not None}
    run = getattr(hv.vectors, job)
    result = run(new_session(settings), name, *arguments, **more, **wanted, dry_run=not yes, options=options)
    (row,) = result.rows()
    if "holders" in row:
        row["holders"] = len(result.holders)
    lines = [*result.lines(), *([] if yes else ["give --yes to do it"])]
    _show([row], lines, shape, quiet)
    is_left = yes and (getattr(result, "changed", 0) or not getattr(result, "dropped", True))
    return PROBLEMS if is_left else DONE
