"""Commands for vector indexes of tables, and of files, which need no Spark."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from hudi_vector.command.arguments import (
    columns_of,
    conf,
    kinds,
    metrics,
    number,
    output,
    several,
    table,
    text,
    texts,
    the_table,
)
from hudi_vector.command.endings import DONE, PROBLEMS, Ended
from hudi_vector.command.groups import HELP, Group
from hudi_vector.command.rows import write_rows
from hudi_vector.command.sessions import session_or_settings
from hudi_vector.errors import InvalidArgumentError, RefusedError

__all__ = ["index"]

_subject = several(
    table,
    texts("--file", "files", "PATH", "a Parquet file, in place of a table"),
    text("--delta", "PATH", "a Delta table, in place of a table"),
    text("--directory", "PATH", "where indexes lie that are not under their table"),
    conf,
    output,
)
_column = text("--column", "NAME", "the vector column", required=True, shell_complete=columns_of)
_which = several(
    _column,
    text("--kind", "KIND", "ivf_sq8, ivf_flat, ivf_rabitq, ivf_pq or hnsw", shell_complete=kinds),
    text("--metric", "METRIC", "cosine, l2 or dot_product", shell_complete=metrics),
)
_recall_target = number("--recall-target", "SHARE", "what searches aim at; 1 by default", float)
_sizes = several(
    number("--num-partitions", "N", "lists; about the root of the rows by default"),
    number("--num-sub-vectors", "N", "ivf_pq: parts of a vector that have a code"),
    number("--num-bits", "BITS", "ivf_pq, hnsw: 8 or 4; ivf_rabitq: 1, 2 or 4"),
    number("--max-iters", "N", "rounds of k-means"),
    number("--sample", "N", "vectors to train on; 256 for each list by default"),
    _recall_target,
)


@click.group(cls=Group, context_settings=HELP)
def index() -> None:
    """Make vector indexes, and look after them."""


@index.make("create")
@_subject
@_which
@_sizes
def _create(**given: Any) -> int:
    """Make an index, or make it again."""
    return _run("create", given, spreads=True)


@index.make("build-if-missing")
@_subject
@_which
@_sizes
def _build_if_missing(**given: Any) -> int:
    """Make it where there is none, else bring it up to date."""
    return _run("build_if_missing", given, spreads=True)


@index.make("refresh")
@_subject
@_which
@click.option("--deep", is_flag=True, help="read all segments, and make damaged ones again")
def _refresh(**given: Any) -> int:
    """Index the files that came since."""
    return _run("refresh", given, spreads=True)


@index.make("describe")
@_subject
@text("--column", "NAME", "only this column", shell_complete=columns_of)
def _describe(**given: Any) -> int:
    """Say what is indexed, and how much of it."""
    return _run("describe", given)


@index.make("recall")
@_subject
@_which
@number("--k", "N", "how many rows each search wants")
@number("--sample", "N", "how many vectors of the table ask")
@number("--recall-target", "SHARE", "what the searches aim at", float)
@number("--at-least", "SHARE", "end with exit code 1 below this", float)
def _recall(**given: Any) -> int:
    """Measure it against exact search, and note it."""
    try:
        return _run("recall", given, spreads=True)
    except RefusedError as problem:  # the measurement is done and noted: a problem was found
        raise Ended(PROBLEMS, str(problem)) from problem


@index.make("verify")
@_subject
@_which
def _verify(**given: Any) -> int:
    """Read all of it, and list what is wrong: exit code 1."""
    return _run("verify", given)


@index.make("compact")
@_subject
@_which
@text("--grace", "24h", "how old such a file must be")
def _compact(**given: Any) -> int:
    """Delete what the index no longer needs."""
    return _run("compact", given)


@index.make("drop")
@_subject
@_which
def _drop(**given: Any) -> int:
    """Remove it; searches then scan."""
    return _run("drop", given)


def _run(job: str, given: dict[str, Any], *, spreads: bool = False) -> int:
    """Run a function of ``hv.index`` with the arguments of its command, and show what it returns."""
    import hudi_vector as hv

    table, named, settings, shape, _ = (given.pop(name) for name in ("table", "named_table", "conf", "form", "quiet"))
    is_of_files = bool(given["files"]) or given["delta"] is not None
    if is_of_files and settings:
        raise InvalidArgumentError("--conf is for tables: indexes over files are made without a session")
    if is_of_files and (table or named or (given["files"] and given["delta"])):
        raise InvalidArgumentError("give one of a table, --file and --delta")
    name = None if is_of_files else the_table(table, named)
    session = None if name is None else session_or_settings(settings, [name], spreads=spreads)
    wanted = {key: value for key, value in given.items() if value not in (None, ())}
    if "files" in wanted:
        wanted["files"] = list(wanted["files"])
    done = getattr(hv.index, job)(session, name, **wanted)
    listed = done if isinstance(done, list) else [done]
    write_rows([{"deleted": one} if isinstance(one, str) else asdict(one) for one in listed], shape)
    return PROBLEMS if listed and job == "verify" else DONE
