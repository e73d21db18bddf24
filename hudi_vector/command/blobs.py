"""Commands for the blobs of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hudi_vector.command.arguments import columns_of, conf, form, several, table, text, the_table
from hudi_vector.command.endings import DONE, PROBLEMS, say
from hudi_vector.command.groups import HELP, Group
from hudi_vector.command.rows import standard_output, write_rows
from hudi_vector.command.sessions import new_session, session_or_settings
from hudi_vector.errors import InvalidArgumentError, UnsupportedTableError
from hudi_vector.options import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["blobs"]

T = TypeVar("T")

_on_table = several(table, conf, form)


@click.group(cls=Group, context_settings=HELP)
def blobs() -> None:
    """Count the blobs of a table, check them, and read them."""


@blobs.make("inventory")
@_on_table
def _inventory(table: str | None, named_table: str | None, conf: tuple[str, ...], form: str) -> int:
    """Count blobs and bytes by where they lie."""
    name = the_table(table, named_table)
    write_rows(_rows("inventory", name, conf, ("column", "partition", "container")), form)
    return DONE


@blobs.make("verify")
@_on_table
@click.option("--deep", is_flag=True, help="read the bytes and compare checksums")
def _verify(table: str | None, named_table: str | None, conf: tuple[str, ...], form: str, deep: bool) -> int:
    """List references that are wrong; end with exit code 1 if any is."""
    name = the_table(table, named_table)
    rows = _rows("verify", name, conf, ("column", "partition", "key"), deep=deep)
    write_rows(rows, form)
    return PROBLEMS if rows else DONE


@blobs.make("get")
@click.argument("keys", nargs=-1, required=True, metavar="TABLE KEY...")
@click.option("--table", "named_table", hidden=True)
@text("--column", "NAME", "the BLOB column", required=True, shell_complete=columns_of)
@text("--out", "FILE", "write the bytes of one key to a file; - is standard output")
@conf
@form
def _get(
    keys: tuple[str, ...], named_table: str | None, column: str, out: str | None, conf: tuple[str, ...], form: str
) -> int:
    """Read the blobs of rows by record key.

    KEY is the value of the key field, or a JSON list of several. Rows have the key and the size; JSON and CSV have the
    bytes too, in base64.
    """
    name, *words = keys if named_table is None else (named_table, *keys)
    if not words:
        raise InvalidArgumentError("give a table, and the keys of its rows")
    if out is not None and len(words) > 1:
        raise InvalidArgumentError(f"--out takes the bytes of one key, and {len(words)} are given")
    wanted = {word: _key_of(word) for word in words}
    found = _found(name, list(wanted.values()), column, conf)
    gone = [word for word, key in wanted.items() if key not in found]
    values = {word: found[key] for word, key in wanted.items() if key in found}
    if out is None:
        write_rows([_row(word, value, form) for word, value in values.items()], form)
    elif values:
        _write(out, next(iter(values.values())))
    if gone:
        say(f"no row of '{name}' has the key {' or '.join(map(repr, gone))}")
    return PROBLEMS if gone else DONE


def _found(table: str, keys: list[Any], column: str, conf: tuple[str, ...]) -> dict[Any, bytes | None]:
    return _asked(lambda where: _job("get")(where, table, keys, column), table, conf, spreads=False)


def _rows(job: str, table: str, conf: tuple[str, ...], order: Sequence[str], **given: Any) -> list[dict[str, Any]]:
    """Return the rows that a job of ``hv.blobs`` gives for a table, sorted by columns."""
    found = _asked(lambda where: _job(job)(where, table, **given), table, conf, spreads=True)
    rows = [row.asDict() for row in found.collect()] if hasattr(found, "collect") else found.to_pylist()
    return sorted(rows, key=lambda row: [row[name] or "" for name in order])


def _asked(ask: Callable[[SparkSession | Settings], T], table: str, conf: tuple[str, ...], *, spreads: bool) -> T:
    """Return an answer about a table; Spark starts only for a table whose rows it alone can read, or on a cluster."""
    where = session_or_settings(conf, [table], spreads=spreads)  # first, as it knows what need not be imported
    try:
        return ask(where)
    except UnsupportedTableError:
        if not isinstance(where, Settings):
            raise
        return ask(new_session(conf))


def _job(name: str) -> Callable[..., Any]:
    import hudi_vector as hv

    found: Callable[..., Any] = getattr(hv.blobs, name)
    return found


def _key_of(word: str) -> str | tuple[Any, ...]:
    if not word.startswith("["):
        return word
    try:
        return tuple(json.loads(word))
    except ValueError as problem:
        raise InvalidArgumentError(f"the key {word!r} is no list in JSON: {problem}") from None


def _row(key: str, value: bytes | None, form: str) -> dict[str, Any]:
    row = {"key": key, "bytes": None if value is None else len(value)}
    return row if form == "table" else {**row, "value": value}


def _write(place: str, value: bytes | None) -> None:
    """Write a blob, of which nothing is left for NULL, to a file or standard output."""
    if place == "-":
        with standard_output() as out:
            out.buffer.write(value or b"")
        return
    with open(place, "wb") as file:
        file.write(value or b"")
