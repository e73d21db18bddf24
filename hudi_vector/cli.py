"""The command ``hudi-vector``, which calls only the public API."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import (
    DimensionMismatchError,
    HudiVectorError,
    InvalidArgumentError,
    InvalidBlobError,
    InvalidTypeError,
    InvalidVectorError,
    TableNotFoundError,
)
from hudi_vector.options import CLEAN_EXECUTION, Settings, require_known
from hudi_vector.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudi_vector.table_services.cleaning.explain import BlobExplanation
    from hudi_vector.table_services.cleaning.listing import BlobContainers
    from hudi_vector.table_services.clustering.api import ClusterResult
    from hudi_vector.table_services.erasure.api import ErasureResult
    from hudi_vector.table_services.maintenance.api import MaintainResult
    from hudi_vector.table_services.plans.compaction_result import CompactResult
    from hudi_vector.table_services.result import CleanResult, RestoreResult

    _Result = CleanResult | RestoreResult | CompactResult | ClusterResult | ErasureResult | MaintainResult

__all__ = ["main"]

_OTHER_TABLE: dict[str, Any] = {
    "metavar": "PATH",
    "action": "append",
    "dest": "other_tables",
    "default": [],
    "help": "a table that may refer to this one's blobs; may be given again",
}
_NOT_ARGUMENTS = frozenset({"command", "run", "service", "table", "format", "conf"})
_MARKING = frozenset({"clean-blobs", "mark-blobs", "sweep-blobs", "explain-blob", "list-containers"})
"""Commands that read a table's data files, which executors can do too."""
_WITHOUT_SPARK = _MARKING | {
    *("restore-blobs", "registered-tables", "register-tables", "unregister-tables"),
    *("describe", "verify", "drop", "compact"),  # subcommands of index
}
"""Commands that only list, read, move and remove files; for tables given by their paths they run without Spark."""
_WRONG_USE = (InvalidArgumentError, InvalidTypeError, TableNotFoundError)
_WRONG_DATA = (DimensionMismatchError, InvalidVectorError, InvalidBlobError)
_SPARK, _HUDI = "spark.", "hoodie."
_QUIET = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command-line arguments; by default the arguments of the process.

    Returns:
        The exit code: 0 for success or nothing to do; 1 for a refusal, a failure or problems found; 2 for wrong use,
        that is, arguments or settings that are not allowed or a table that does not exist.

    Example:
        >>> main(["options"])  # doctest: +ELLIPSIS
        | Key ...
        0
    """
    chosen = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        with _warnings_in_sentences():
            return run(chosen)
    except _expected() as problem:
        sys.stderr.write(f"hudi-vector: {_sentence(chosen.command, problem)}\n")
        return 2 if isinstance(problem, _WRONG_USE) and not isinstance(problem, _WRONG_DATA) else 1


@contextlib.contextmanager
def _warnings_in_sentences() -> Iterator[None]:
    """Log warnings to standard error without stack traces, unless the process has its own log handlers."""
    log, handler = logging.getLogger("hudi_vector"), logging.StreamHandler()
    if log.hasHandlers():
        yield
        return
    handler.setFormatter(_NoFrames("%(levelname)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _NoFrames(logging.Formatter):
    def formatException(self, ei: Any) -> str:  # noqa: ARG002, N802 - as logging has it
        """Return nothing: the last line of the command's output says what failed."""
        return ""


def _expected() -> tuple[type[Exception], ...]:
    """Return the exceptions of storage, Spark and this package, which are reported as one sentence."""
    if "pyspark" not in sys.modules:
        return HudiVectorError, OSError
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return HudiVectorError, OSError, Py4JError, PySparkException


def _sentence(command: str, problem: Exception) -> str:
    if isinstance(problem, HudiVectorError):
        return str(problem)
    if isinstance(problem, OSError):
        place = f": '{problem.filename}'" if problem.filename else ""
        return f"{command} failed: {problem.strerror or problem}{place}"
    from hudi_vector.spark.catalyst.gateway import first_sentence
    from hudi_vector.spark.catalyst.worker_errors import from_worker

    return str(from_worker(problem) or f"{command} failed: {first_sentence(problem)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hudi-vector", description="Vectors and blobs in Apache Hudi tables.")
    parser.add_argument("--version", action="version", version=f"hudi-vector {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("options", help="list every setting with its default and meaning").set_defaults(run=_options)
    commands.add_parser("bundles", help="list which Hudi bundle belongs to which Spark").set_defaults(run=_bundles)
    blobs = commands.add_parser("blobs", help="look after the blobs of a table")
    of_blobs = blobs.add_subparsers(dest="blobs_command", required=True)
    session = argparse.ArgumentParser(add_help=False)
    session.add_argument(
        "--conf", metavar="KEY=VALUE", action="append", default=[],
        help="a setting of Spark (spark.…), or of Hudi and this package (hoodie.…); may be given again",
    )  # fmt: skip
    table = argparse.ArgumentParser(add_help=False, parents=[session])
    table.add_argument("--table", required=True, metavar="PATH", help="the path of a Hudi table, or its name")
    table.add_argument("--format", choices=("table", "json"), default="table", help="json is one object a line")
    inventory = of_blobs.add_parser("inventory", parents=[table], help="count blobs and bytes by where they lie")
    inventory.set_defaults(run=_inventory)
    verify = of_blobs.add_parser("verify", parents=[table], help="list references that are wrong; exit code 1 if any")
    verify.add_argument("--deep", action="store_true", help="read the bytes and compare checksums")
    verify.set_defaults(run=_verify)
    _add_services(commands, table)
    _add_index(commands, session)
    return parser


def _add_services(commands: Any, table: argparse.ArgumentParser) -> None:
    """Add the maintenance commands; ``hoodie.blob.*`` settings of Spark apply where an argument is left out."""
    marking = argparse.ArgumentParser(add_help=False)
    marking.add_argument("--report", metavar="FILE", help="write the rows there too, one JSON object a line")
    _add_marking(marking)
    verifying = argparse.ArgumentParser(add_help=False)
    verifying.add_argument(
        "--verify-index", action="store_true", help="read every data file, and compare what is kept of its references"
    )
    sweeping = argparse.ArgumentParser(add_help=False)
    sweeping.add_argument("--dry-run", action="store_true", help="only show what would happen, in the same rows")
    sweeping.add_argument("--no-trash", action="store_false", dest="trash", help="delete for good at once")
    sweeping.add_argument("--max-share", metavar="PERCENT", type=int, help="refuse if more of the bytes would go")
    sweeping.add_argument("--max-files", metavar="N", type=int, help="take no more files than this, the oldest first")
    parents = [table, marking, sweeping]
    clean = commands.add_parser(
        "clean-blobs", parents=[*parents, verifying], help="mark, sweep, and empty the trash when it is due"
    )
    clean.add_argument("--run-hudi-clean", action="store_true", help="run Hudi's own clean first")
    clean.add_argument(
        "--retain-commits", metavar="N", type=int, dest="retained_commits", help="how many commits it leaves readable"
    )
    clean.add_argument("--trash-window", metavar="7d", help="how long files stay in the trash")
    clean.set_defaults(run=_service, service="clean_blobs")
    mark = commands.add_parser(
        "mark-blobs", parents=[table, marking, verifying], help="list what nothing needs, for review"
    )
    mark.set_defaults(run=_service, service="mark_blobs")
    sweep = commands.add_parser("sweep-blobs", parents=parents, help="take what a mark lists")
    sweep.add_argument("--mark", metavar="ID", required=True, help="the mark, as mark-blobs names it")
    sweep.set_defaults(run=_service, service="sweep_blobs")
    explain = commands.add_parser(
        "explain-blob", parents=[table], help="say what keeps a blob file, or why nothing does"
    )
    explain.add_argument("--path", metavar="PATH", required=True, help="from the table's folder, absolute or a URI")
    _add_marking(explain)
    explain.set_defaults(run=_explained, service="explain_blob")
    containers = commands.add_parser("list-containers", parents=[table], help="say how much of each blob file is live")
    containers.set_defaults(run=_explained, service="list_containers")
    restore = commands.add_parser("restore-blobs", parents=[table], help="bring files back from the trash")
    restore.add_argument("--sweep", metavar="ID", help="only what this sweep took")
    restore.add_argument("--path", metavar="PATH", action="append", dest="paths", help="only this; may be given again")
    restore.add_argument(
        "--managed-root", metavar="FOLDER", action="append", dest="managed_roots",
        help="put files back below this too; may be given again",
    )  # fmt: skip
    restore.set_defaults(run=_service, service="restore_blobs")
    job = commands.add_parser("maintain", parents=[table], help="run what is due on a table; safe every hour")
    job.add_argument("--dry-run", action="store_true", help="only show what would happen")
    job.add_argument(
        "--step", metavar="NAME", action="append", dest="steps", type=lambda name: name.replace("-", "_"),
        help="run this now, due or not: cluster, compact-blobs, clean-blobs, index, figures; may be given again",
    )  # fmt: skip
    job.add_argument("--report", metavar="FILE.html", help="draw the table's blobs over time")
    job.add_argument(
        "--assume-single-writer", action="store_true", default=None, help="promise that no one else writes meanwhile"
    )
    job.add_argument("--other-table", **_OTHER_TABLE)
    job.set_defaults(run=_service, service="maintain")
    erasure = commands.add_parser("check-erasure", parents=[table], help="where bytes of records still are")
    erasure.add_argument(
        "--key", metavar="KEY", action="append", dest="keys", default=[], help="a record key; may be given again"
    )
    erasure.add_argument("--keys-file", metavar="FILE", help="record keys, one a line")
    erasure.set_defaults(run=_erasure)
    _add_registry(commands, table)
    _add_compaction(commands, table)


def _add_compaction(commands: Any, table: argparse.ArgumentParser) -> None:
    compact = commands.add_parser("compact-blobs", parents=[table], help="repack containers that are dead or small")
    compact.add_argument(
        "--column", metavar="NAME", action="append", dest="columns", help="only this; may be given again"
    )
    compact.add_argument("--live-threshold", metavar="PERCENT", type=int, help="repack where less than this is live")
    compact.add_argument("--target-size", metavar="256MB", help="the size of new containers")
    compact.add_argument("--small-threshold", metavar="64MB", help="join containers of fewer bytes")
    compact.add_argument("--group-size", metavar="16GB", help="commit after so many bytes")
    compact.add_argument("--deduplicate", action="store_true", help="store equal blobs once")
    compact.add_argument(
        "--assume-single-writer", action="store_true", help="promise that no one else writes meanwhile"
    )
    compact.add_argument("--plan", metavar="ID", help="run this plan, as a dry run named it")
    compact.add_argument("--dry-run", action="store_true", help="only show what would happen, in the same rows")
    compact.add_argument("--report", metavar="FILE", help="write the rows there too, one JSON object a line")
    compact.set_defaults(run=_service, service="compact_blobs")
    cluster = commands.add_parser("cluster", parents=[table], help="run Hudi's clustering, and let blobs follow rows")
    cluster.add_argument(
        "--order-by", metavar="NAME", action="append", default=[], help="sort by this; may be repeated"
    )
    cluster.add_argument(
        "--assume-single-writer", action="store_true", help="promise that no one else writes meanwhile"
    )
    cluster.add_argument("--plan", metavar="ID", help="run this plan, as a dry run named it")
    cluster.add_argument("--dry-run", action="store_true", help="only show what would happen, in the same rows")
    cluster.add_argument("--report", metavar="FILE", help="write the rows there too, one JSON object a line")
    cluster.set_defaults(run=_service, service="cluster")


def _add_index(commands: Any, session: argparse.ArgumentParser) -> None:
    """Add the commands for vector indexes of tables, and of files, which need no Spark."""
    index = commands.add_parser("index", help="make vector indexes and look after them")
    of_index = index.add_subparsers(dest="index_command", required=True)
    table = argparse.ArgumentParser(add_help=False, parents=[session])
    subject = table.add_mutually_exclusive_group(required=True)
    subject.add_argument("--table", metavar="PATH", help="the path of a Hudi table, or its name")
    subject.add_argument(
        "--file", metavar="PATH", action="append", dest="files", help="a Parquet file; may be given again"
    )
    subject.add_argument("--delta", metavar="PATH", help="the path of a Delta table")
    table.add_argument("--directory", metavar="PATH", help="where indexes lie that are not under their table")
    table.add_argument("--format", choices=("table", "json"), default="table", help="json is one object a line")
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument("--column", metavar="NAME", required=True, help="the vector column")
    which.add_argument("--kind", metavar="KIND", help="ivf_sq8, ivf_flat, ivf_rabitq, ivf_pq or hnsw")
    which.add_argument("--metric", metavar="METRIC", help="cosine, l2 or dot_product")
    sizes = argparse.ArgumentParser(add_help=False)
    sizes.add_argument("--num-partitions", metavar="N", type=int, help="lists; about the root of the rows by default")
    sizes.add_argument("--num-sub-vectors", metavar="N", type=int, help="ivf_pq: parts of a vector that have a code")
    sizes.add_argument("--num-bits", metavar="BITS", type=int, help="ivf_pq, hnsw: 8 or 4; ivf_rabitq: 1, 2 or 4")
    sizes.add_argument("--max-iters", metavar="N", type=int, help="rounds of k-means")
    sizes.add_argument("--sample", metavar="N", type=int, help="vectors to train on; 256 for each list by default")
    sizes.add_argument("--recall-target", metavar="SHARE", type=float, help="what searches aim at; 1 by default")
    for name, parents, text in (
        ("create", [table, which, sizes], "make an index, or make it again"),
        ("build-if-missing", [table, which, sizes], "make it where there is none, else bring it up to date"),
        ("drop", [table, which], "remove it; searches then scan"),
    ):
        of_index.add_parser(name, parents=parents, help=text).set_defaults(run=_index)
    refresh = of_index.add_parser("refresh", parents=[table, which], help="index the files that came since")
    refresh.add_argument("--deep", action="store_true", help="read all segments, and make damaged ones again")
    refresh.set_defaults(run=_index)
    compact = of_index.add_parser("compact", parents=[table, which], help="delete what the index no longer needs")
    compact.add_argument("--grace", metavar="24h", help="how old such a file must be")
    compact.set_defaults(run=_index)
    of_index.add_parser(
        "verify", parents=[table, which], help="read all of it; exit code 1 if anything is wrong"
    ).set_defaults(run=_index)
    recall = of_index.add_parser("recall", parents=[table, which], help="measure it against exact search, and note it")
    recall.add_argument("--k", metavar="N", type=int, help="how many rows each search wants")
    recall.add_argument("--sample", metavar="N", type=int, help="how many vectors of the table ask")
    recall.add_argument("--recall-target", metavar="SHARE", type=float, help="what the searches aim at")
    recall.add_argument("--at-least", metavar="SHARE", type=float, help="refuse, exit code 1, below this")
    recall.set_defaults(run=_index)
    describe = of_index.add_parser("describe", parents=[table], help="say what is indexed, and how much of it")
    describe.add_argument("--column", metavar="NAME", help="only this column")
    describe.set_defaults(run=_index)


def _add_marking(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--grace", metavar="24h", help="how old a file must be")
    parser.add_argument("--other-table", **_OTHER_TABLE)
    parser.add_argument(
        "--managed-root", metavar="FOLDER", action="append", dest="managed_roots",
        help="a folder outside of the blob area whose files belong to the table; may be given again",
    )  # fmt: skip
    parser.add_argument(
        "--ignore-stale-pending", action="store_true",
        help="let instants that have been pending without a sign of life for 7 days hold nothing back",
    )  # fmt: skip


def _add_registry(commands: Any, table: argparse.ArgumentParser) -> None:
    """Add the commands for tables that may refer to each other's blobs."""
    listing = commands.add_parser("registered-tables", parents=[table], help="list the tables that may share its blobs")
    listing.set_defaults(run=_registry, service="registered_tables")
    others = argparse.ArgumentParser(add_help=False)
    others.add_argument(
        "--with", metavar="PATH", action="append", dest="others", required=True,
        help="another table, by its path or name; may be given again",
    )  # fmt: skip
    parents = [table, others]
    enter = commands.add_parser("register-tables", parents=parents, help="let tables refer to each other's blobs")
    enter.set_defaults(run=_registry, service="register_tables")
    leave = commands.add_parser("unregister-tables", parents=parents, help="no longer, once none refers to another's")
    leave.add_argument("--gone", action="store_true", help="the others do not exist any more")
    leave.set_defaults(run=_registry, service="unregister_tables")


def _options(_: argparse.Namespace) -> int:
    from hudi_vector.options import markdown

    sys.stdout.write(markdown())
    return 0


def _bundles(_: argparse.Namespace) -> int:
    from hudi_vector.jars import known_bundles

    for spark, bundle in known_bundles().items():
        sys.stdout.write(f"Spark {spark}: {bundle.location}{' (tested)' if bundle.proved else ' (not tested)'}\n")
    return 0


def _inventory(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    rows = _collected(hv.blobs.inventory(_session(chosen.conf), chosen.table), "column", "partition", "container")
    _print(rows, chosen.format)
    return 0


def _verify(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    rows = _collected(
        hv.blobs.verify(_session(chosen.conf), chosen.table, deep=chosen.deep), "column", "partition", "key"
    )
    _print(rows, chosen.format)
    return 1 if rows else 0


def _service(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    service: Callable[..., _Result] = getattr(hv.table_services, chosen.service)
    return _shown(service(_session_if_needed(chosen), chosen.table, **_given(chosen)), chosen.format)


def _explained(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    service: Callable[..., BlobExplanation | BlobContainers] = getattr(hv.table_services, chosen.service)
    found = service(_session_if_needed(chosen), chosen.table, **_given(chosen))
    _print(found.rows(), chosen.format)
    sys.stderr.writelines(f"hudi-vector: {line}\n" for line in found.lines())
    return 1 if found.doubts else 0


def _given(chosen: argparse.Namespace) -> dict[str, Any]:
    return {key: value for key, value in vars(chosen).items() if key not in _NOT_ARGUMENTS}


def _erasure(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    keys = list(chosen.keys)
    if chosen.keys_file:
        try:
            with open(chosen.keys_file, encoding="utf-8") as file:
                keys += [line.rstrip("\n") for line in file if line.strip()]
        except (OSError, UnicodeDecodeError) as problem:
            raise InvalidArgumentError(f"the keys in '{chosen.keys_file}' cannot be read: {problem}") from None
    return _shown(hv.table_services.check_erasure(_session(chosen.conf), chosen.table, keys), chosen.format)


def _registry(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    listed: list[str] = getattr(hv.table_services, chosen.service)(
        _session_if_needed(chosen), chosen.table, **_given(chosen)
    )
    _print([{"table": path} for path in listed], chosen.format)
    return 0


def _index(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    given = {key: value for key, value in _given(chosen).items() if value is not None and key != "index_command"}
    if chosen.table is None and chosen.conf:
        raise InvalidArgumentError("--conf is for tables: indexes over files are made without a session")
    session = None if chosen.table is None else _session_if_needed(chosen)
    done = getattr(hv.index, chosen.index_command.replace("-", "_"))(session, chosen.table, **given)
    listed = done if isinstance(done, list) else [done]
    _print([{"deleted": one} if isinstance(one, str) else asdict(one) for one in listed], chosen.format)
    return 1 if listed and chosen.index_command == "verify" else 0


def _shown(result: _Result, form: str) -> int:
    """Print a result's rows to standard output and its sentences to standard error; return the exit code."""
    from hudi_vector.table_services.result import CleanResult, RestoreResult, report_lines

    _print(result.rows(), form)
    lines = report_lines(result) if isinstance(result, (CleanResult, RestoreResult)) else result.lines()
    sys.stderr.writelines(f"hudi-vector: {line}\n" for line in lines)
    return 0 if result.is_well else 1


def _session_if_needed(chosen: argparse.Namespace) -> SparkSession | Settings:
    """Return a session, or the settings alone if the command can run without one and all tables are paths.

    Under spark-submit there is always a session, because it has been started already.
    """
    settings = None if _needs_spark(chosen) else _settings_here(chosen)
    return _session(chosen.conf) if settings is None else settings


def _needs_spark(chosen: argparse.Namespace) -> bool:
    """Return True if the command writes through Hudi, names a table of a catalog, or runs under spark-submit."""
    name = chosen.index_command if chosen.command == "index" else chosen.command
    is_named = any("/" not in table for table in (chosen.table, *getattr(chosen, "others", [])))
    writes = name not in _WITHOUT_SPARK or getattr(chosen, "run_hudi_clean", False)
    return writes or is_named or "PYSPARK_GATEWAY_PORT" in os.environ


def _settings_here(chosen: argparse.Namespace) -> Settings | None:
    """Return the settings of a command without a session; None if only Java can read them, or executors are to mark."""
    from hudi_vector.table_services.environment import settings_here

    of_spark, of_hudi = _settings(chosen.conf)
    settings = settings_here({**of_spark, **of_hudi})
    if settings is None or chosen.command not in _MARKING:
        return settings
    execution = CLEAN_EXECUTION.in_session(settings)
    has_cluster = not settings.values.get("spark.master", "local").startswith("local")
    return None if execution == "distributed" or (execution == "auto" and has_cluster) else settings


def _session(given: Sequence[str]) -> SparkSession:
    """Return a registered session; the command's settings take precedence over settings given to spark-submit."""
    from pyspark.sql import SparkSession

    import hudi_vector as hv

    of_spark, of_hudi = _settings(given)
    builder = SparkSession.builder.appName("hudi-vector").config(map={**_QUIET, **_submitted(), **of_spark})
    with _stdout_for_rows():
        spark = hv.configure(builder).getOrCreate()
    # Spark's launchers drop settings whose names do not begin with "spark.", so Hudi's are given with that prefix.
    for name, value in spark.sparkContext.getConf().getAll():
        key = name.removeprefix(_SPARK)
        if key.startswith(_HUDI) and spark.conf.get(key, None) is None:
            spark.conf.set(key, value)
    for key, value in of_hudi.items():
        spark.conf.set(key, value)
    return hv.register(spark)


@contextlib.contextmanager
def _stdout_for_rows() -> Iterator[None]:
    """Redirect the standard output of a JVM that starts in this block to standard error.

    Otherwise the first line of Ivy would be printed before the rows.
    """
    rows = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(rows, 1)
        os.close(rows)


def _settings(given: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings for Spark's start, and the settings of Hudi and this package for the session.

    Raises InvalidArgumentError if a text is not KEY=VALUE with an allowed prefix, or a key of this package is unknown.
    """
    of_spark: dict[str, str] = {}
    of_hudi: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        key = name.strip()
        key = key.removeprefix(_SPARK) if key.startswith(_SPARK + _HUDI) else key
        if not equals or not key.startswith((_SPARK, _HUDI)):
            raise InvalidArgumentError(
                f"--conf {text!r} is no setting: give KEY=VALUE, with a key that begins with {_SPARK} or {_HUDI}"
            )
        (of_hudi if key.startswith(_HUDI) else of_spark)[key] = value
    require_known(of_hudi)
    return of_spark, of_hudi


def _submitted() -> dict[str, str]:
    """Return the settings given to spark-submit, or {} without it.

    They must be in the builder: its own settings would override them, and their lists would be lost.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _collected(frame: DataFrame, *order: str) -> list[dict[str, Any]]:
    """Return the rows of a frame sorted by columns; Spark would compute the rows twice to sort them."""
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: [row[name] or "" for name in order])


def _print(rows: list[dict[str, Any]], form: str) -> None:
    if form == "json":
        sys.stdout.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return
    if not rows:
        sys.stdout.write("nothing found\n")
        return
    cells = [list(rows[0]), *(["" if value is None else str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numbers = [any(isinstance(row[name], int) for row in rows) for name in rows[0]]
    for line in cells:
        aligned = zip(line, widths, numbers, strict=True)
        text = "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in aligned)
        sys.stdout.write(text.rstrip() + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
