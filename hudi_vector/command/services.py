"""Commands of the table services; each calls the function of ``hv.table_services`` of the same meaning.

``hoodie.blob.*`` settings apply where an argument is left out.
"""

from __future__ import annotations

from typing import Any

import click

from hudi_vector.command.arguments import (
    among,
    conf,
    dry_run,
    form,
    marking,
    number,
    other_tables,
    output,
    report,
    several,
    single_writer,
    sweeping,
    table,
    text,
    texts,
    the_table,
)
from hudi_vector.command.endings import DONE, show_found, show_result
from hudi_vector.command.groups import HELP, Group
from hudi_vector.command.rows import write_rows
from hudi_vector.command.sessions import session_or_settings
from hudi_vector.errors import InvalidArgumentError

__all__ = ["FORMER", "services"]

FORMER = {
    "maintain": "maintain",
    "clean-blobs": "clean",
    "mark-blobs": "mark",
    "sweep-blobs": "sweep",
    "restore-blobs": "restore",
    "explain-blob": "explain",
    "list-containers": "list",
    "compact-blobs": "compact",
    "cluster": "cluster",
    "check-erasure": "check-erasure",
    "register-tables": "register",
    "registered-tables": "registered",
    "unregister-tables": "unregister",
}
"""The commands by the names that they had before there were groups."""

_STEPS = ("cluster", "compact-blobs", "clean-blobs", "index", "figures")

_on_table = several(table, conf, output)
_verify_index = click.option(
    "--verify-index", is_flag=True, help="read every data file, and compare what is kept of its references"
)
_plan = text("--plan", "ID", "run this plan, as a dry run named it")
_others = texts("--with", "others", "PATH", "another table, by its path or name", required=True)


@click.group(cls=Group, context_settings=HELP)
def services() -> None:
    """Look after tables: clean, compact, cluster, check."""


@services.make("maintain")
@_on_table
@dry_run
@texts(
    "--step", "steps", "NAME", f"run this now, due or not: {', '.join(_STEPS)}",
    absent=None, shell_complete=among(lambda: _STEPS),
)  # fmt: skip
@text("--report", "FILE.html", "draw a page about the table")
@click.option("--assume-single-writer", is_flag=True, default=None, help="promise that no one else writes meanwhile")
@other_tables
def _maintain(steps: tuple[str, ...] | None, **given: Any) -> int:
    """Run what is due on a table; safe every hour."""
    named = None if steps is None else [step.replace("-", "_") for step in steps]
    return _served("maintain", given, needs_spark=True, steps=named)


@services.make("clean")
@_on_table
@sweeping
@marking
@report
@_verify_index
@click.option("--run-hudi-clean", is_flag=True, help="run Hudi's own clean first")
@number("--retain-commits", "N", "how many commits it leaves readable")
@text("--trash-window", "7d", "how long files stay in the trash")
def _clean(no_trash: bool, retain_commits: int | None, **given: Any) -> int:
    """Move blob files that nothing needs to the trash."""
    more = {"trash": not no_trash, "retained_commits": retain_commits}
    return _served("clean_blobs", given, needs_spark=given["run_hudi_clean"], marks=True, **more)


@services.make("mark")
@_on_table
@marking
@report
@_verify_index
def _mark(**given: Any) -> int:
    """List what nothing needs, for review."""
    return _served("mark_blobs", given, marks=True)


@services.make("sweep")
@_on_table
@text("--mark", "ID", "the mark, as 'mark' names it", required=True)
@sweeping
@marking
@report
def _sweep(no_trash: bool, **given: Any) -> int:
    """Take what a mark lists."""
    return _served("sweep_blobs", given, marks=True, trash=not no_trash)


@services.make("restore")
@_on_table
@text("--sweep", "ID", "only what this sweep took")
@texts("--path", "paths", "PATH", "only this", absent=None)
@texts("--managed-root", "managed_roots", "FOLDER", "put files back below this too", absent=None)
def _restore(**given: Any) -> int:
    """Bring files back from the trash."""
    return _served("restore_blobs", given)


@services.make("explain")
@_on_table
@text("--path", "PATH", "from the table's folder, absolute or a URI", required=True)
@marking
def _explain(**given: Any) -> int:
    """Say what keeps a blob file, or why nothing does."""
    return _found("explain_blob", given)


@services.make("list")
@_on_table
def _list(**given: Any) -> int:
    """Say how much of each blob file is live."""
    return _found("list_containers", given)


@services.make("compact")
@_on_table
@dry_run
@texts("--column", "columns", "NAME", "only this", absent=None)
@number("--live-threshold", "PERCENT", "repack where less than this is live")
@text("--target-size", "256MB", "the size of new containers")
@text("--small-threshold", "64MB", "join containers of fewer bytes")
@text("--group-size", "16GB", "commit after so many bytes")
@click.option("--deduplicate", is_flag=True, help="store equal blobs once")
@single_writer
@_plan
@report
def _compact(**given: Any) -> int:
    """Repack containers that are dead or small."""
    return _served("compact_blobs", given, needs_spark=True)


@services.make("cluster")
@_on_table
@dry_run
@texts("--order-by", "order_by", "NAME", "sort by this")
@single_writer
@_plan
@report
def _cluster(**given: Any) -> int:
    """Run Hudi's clustering, and let blobs follow rows."""
    return _served("cluster", given, needs_spark=True)


_keys = several(texts("--key", "keys", "KEY", "a record key"), text("--keys-file", "FILE", "record keys, one a line"))


@services.make("check-erasure")
@_on_table
@_keys
@text("--receipts", "FOLDER", "look for the keys in these JSON files too")
def _check_erasure(**given: Any) -> int:
    """Say where bytes of records still are."""
    return _of_keys("check_erasure", given)


@services.make("erase")
@_on_table
@dry_run
@_keys
@single_writer
@click.option("--no-remember", is_flag=True, help="add no hashes of the keys to the deny-list")
def _erase(no_remember: bool, **given: Any) -> int:
    """Delete records for good, and prove it by reading."""
    return _of_keys("erase", given, remember=not no_remember)


def _of_keys(service: str, given: dict[str, Any], **more: Any) -> int:
    wanted = [*given.pop("keys"), *_keys_of(given.pop("keys_file"))]
    return _served(service, given, needs_spark=True, keys=wanted, **more)


def _keys_of(file: str | None) -> list[str]:
    if file is None:
        return []
    try:
        with open(file, encoding="utf-8-sig") as opened:
            return [line.rstrip("\n") for line in opened if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidArgumentError(f"the keys in '{file}' cannot be read: {problem}") from None


@services.make("register")
@several(table, conf, form)
@_others
def _register(**given: Any) -> int:
    """Let tables refer to each other's blobs."""
    return _registry("register_tables", given)


@services.make("registered")
@several(table, conf, form)
def _registered(**given: Any) -> int:
    """List the tables that may share its blobs."""
    return _registry("registered_tables", given)


@services.make("unregister")
@several(table, conf, form)
@_others
@click.option("--gone", is_flag=True, help="the others do not exist any more")
def _unregister(**given: Any) -> int:
    """Let them no longer, once none refers to another's."""
    return _registry("unregister_tables", given)


def _common(given: dict[str, Any]) -> tuple[str, bool, str, tuple[str, ...]]:
    """Take the arguments of every command out of those given: the table, quiet, the format, and the settings."""
    name = the_table(given.pop("table"), given.pop("named_table"))
    return name, given.pop("quiet", False), given.pop("form"), given.pop("conf")


def _served(service: str, given: dict[str, Any], *, needs_spark: bool = False, marks: bool = False, **more: Any) -> int:
    """Run a service with the arguments of its command, and show its result."""
    import hudi_vector as hv

    name, quiet, shape, settings = _common(given)
    where = session_or_settings(settings, [name], needs_spark=needs_spark, marks=marks)
    return show_result(getattr(hv.table_services, service)(where, name, **given, **more), shape, quiet)


def _found(service: str, given: dict[str, Any]) -> int:
    import hudi_vector as hv

    name, quiet, shape, settings = _common(given)
    where = session_or_settings(settings, [name], marks=True)
    return show_found(getattr(hv.table_services, service)(where, name, **given), shape, quiet)


def _registry(service: str, given: dict[str, Any]) -> int:
    import hudi_vector as hv

    name, _, shape, settings = _common(given)
    where = session_or_settings(settings, [name, *given.get("others", ())])
    listed: list[str] = getattr(hv.table_services, service)(where, name, **given)
    write_rows([{"table": path} for path in listed], shape)
    return DONE
