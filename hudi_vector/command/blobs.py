"""Commands for the blobs of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hudi_vector.command.arguments import conf, form, several, table, the_table
from hudi_vector.command.endings import DONE, PROBLEMS
from hudi_vector.command.groups import HELP, Group
from hudi_vector.command.rows import write_rows
from hudi_vector.command.sessions import new_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["blobs"]

_on_table = several(table, conf, form)


@click.group(cls=Group, context_settings=HELP)
def blobs() -> None:
    """Count the blobs of a table, check them, and read them."""


@blobs.make("inventory")
@_on_table
def _inventory(table: str | None, named_table: str | None, conf: tuple[str, ...], form: str) -> int:
    """Count blobs and bytes by where they lie."""
    import hudi_vector as hv

    name = the_table(table, named_table)
    write_rows(_collected(hv.blobs.inventory(new_session(conf), name), "column", "partition", "container"), form)
    return DONE


@blobs.make("verify")
@_on_table
@click.option("--deep", is_flag=True, help="read the bytes and compare checksums")
def _verify(table: str | None, named_table: str | None, conf: tuple[str, ...], form: str, deep: bool) -> int:
    """List references that are wrong; end with exit code 1 if any is."""
    import hudi_vector as hv

    name = the_table(table, named_table)
    rows = _collected(hv.blobs.verify(new_session(conf), name, deep=deep), "column", "partition", "key")
    write_rows(rows, form)
    return PROBLEMS if rows else DONE


def _collected(frame: DataFrame, *order: str) -> list[dict[str, Any]]:
    """Return the rows of a frame sorted by columns; Spark would compute the rows twice to sort them."""
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: [row[name] or "" for name in order])
