"""The command ``hudi-vector``: thin, it calls the public API only."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import HudiVectorError, RefusedError
from hudi_vector.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudi_vector.table_services.clustering import ClusterResult
    from hudi_vector.table_services.compaction_result import CompactResult
    from hudi_vector.table_services.result import CleanResult, RestoreResult

__all__ = ["main"]

_NOT_ARGUMENTS = frozenset({"command", "run", "service", "table", "format"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What stood behind the command; the process's own arguments by default.

    Returns:
        The exit code: 0 done or nothing to do, 1 refused or something found wrong, 2 wrong use, or a table or file that
        is not as it must be.

    Example:
        >>> main(["options"])  # doctest: +ELLIPSIS
        | Key ...
        0
    """
    chosen = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except HudiVectorError as problem:
        sys.stderr.write(f"hudi-vector: {problem}\n")
        return 1 if isinstance(problem, RefusedError) else 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hudi-vector", description="Vectors and blobs in Apache Hudi tables.")
    parser.add_argument("--version", action="version", version=f"hudi-vector {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("options", help="list every setting with its default and meaning").set_defaults(run=_options)
    commands.add_parser("bundles", help="list which Hudi bundle belongs to which Spark").set_defaults(run=_bundles)
    blobs = commands.add_parser("blobs", help="look after the blobs of a table")
    of_blobs = blobs.add_subparsers(dest="blobs_command", required=True)
    table = argparse.ArgumentParser(add_help=False)
    table.add_argument("--table", required=True, metavar="PATH", help="the path of a Hudi table, or its name")
    table.add_argument("--format", choices=("table", "json"), default="table", help="json is one object a line")
    inventory = of_blobs.add_parser("inventory", parents=[table], help="count blobs and bytes by where they lie")
    inventory.add_argument("--picture", metavar="FILE.png", help="draw the bytes by column and partition too")
    inventory.set_defaults(run=_inventory)
    verify = of_blobs.add_parser("verify", parents=[table], help="list references that are wrong; exit code 1 if any")
    verify.add_argument("--deep", action="store_true", help="read the bytes and compare checksums")
    verify.set_defaults(run=_verify)
    _add_services(commands, table)
    return parser


def _add_services(commands: Any, table: argparse.ArgumentParser) -> None:
    """The commands for schedulers; what is not given is set by hoodie.blob.clean.* in Spark's configuration."""
    marking = argparse.ArgumentParser(add_help=False)
    marking.add_argument("--grace", metavar="24h", help="how old a file must be")
    marking.add_argument("--report", metavar="FILE", help="write the rows there too, one JSON object a line")
    marking.add_argument(
        "--other-table", metavar="PATH", action="append", dest="other_tables", default=[],
        help="a table that may refer to this one's blobs; may be given again",
    )  # fmt: skip
    marking.add_argument(
        "--ignore-stale-pending", action="store_true",
        help="let instants that have been pending without a sign of life for 7 days hold nothing back",
    )  # fmt: skip
    sweeping = argparse.ArgumentParser(add_help=False)
    sweeping.add_argument("--dry-run", action="store_true", help="only show what would happen, in the same rows")
    sweeping.add_argument("--no-trash", action="store_false", dest="trash", help="delete for good at once")
    sweeping.add_argument("--max-share", metavar="PERCENT", type=int, help="refuse if more of the bytes would go")
    sweeping.add_argument("--max-files", metavar="N", type=int, help="take no more files than this, the oldest first")
    parents = [table, marking, sweeping]
    clean = commands.add_parser("clean-blobs", parents=parents, help="mark, sweep, and empty the trash when it is due")
    clean.add_argument("--trash-window", metavar="7d", help="how long files stay in the trash")
    clean.set_defaults(run=_service, service="clean_blobs")
    mark = commands.add_parser("mark-blobs", parents=[table, marking], help="list what nothing needs, for review")
    mark.set_defaults(run=_service, service="mark_blobs")
    sweep = commands.add_parser("sweep-blobs", parents=parents, help="take what a mark lists")
    sweep.add_argument("--mark", metavar="ID", required=True, help="the mark, as mark-blobs names it")
    sweep.set_defaults(run=_service, service="sweep_blobs")
    restore = commands.add_parser("restore-blobs", parents=[table], help="bring files back from the trash")
    restore.add_argument("--sweep", metavar="ID", help="only what this sweep took")
    restore.add_argument("--path", metavar="PATH", action="append", dest="paths", help="only this; may be given again")
    restore.set_defaults(run=_service, service="restore_blobs")
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
        "--assume-single-writer", action="store_true", help="promise that nobody else writes meanwhile"
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
        "--assume-single-writer", action="store_true", help="promise that nobody else writes meanwhile"
    )
    cluster.add_argument("--report", metavar="FILE", help="write the rows there too, one JSON object a line")
    cluster.set_defaults(run=_service, service="cluster")


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
    from hudi_vector.blobs.picture import draw, require_matplotlib

    if chosen.picture:
        require_matplotlib()
    rows = _collected(hv.blobs.inventory(_session(), chosen.table), "column", "partition", "container")
    _print(rows, chosen.format)
    if chosen.picture:
        draw(rows, chosen.picture)
    return 0


def _verify(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    rows = _collected(hv.blobs.verify(_session(), chosen.table, deep=chosen.deep), "column", "partition", "key")
    _print(rows, chosen.format)
    return 1 if rows else 0


def _service(chosen: argparse.Namespace) -> int:
    import hudi_vector as hv

    given = {key: value for key, value in vars(chosen).items() if key not in _NOT_ARGUMENTS}
    service: Callable[..., CleanResult | RestoreResult | CompactResult | ClusterResult] = getattr(
        hv.table_services, chosen.service
    )
    return _shown(service(_session(), chosen.table, **given), chosen.format)


def _shown(result: CleanResult | RestoreResult | CompactResult | ClusterResult, form: str) -> int:
    """Rows to where they can be piped, sentences to the operator."""
    from hudi_vector.table_services.result import CleanResult, RestoreResult, report_lines

    _print(result.rows(), form)
    lines = report_lines(result) if isinstance(result, (CleanResult, RestoreResult)) else result.lines()
    sys.stderr.writelines(f"hudi-vector: {line}\n" for line in lines)
    return 0 if result.is_well else 1


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    import hudi_vector as hv

    quiet: dict[str, Any] = {
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.appName("hudi-vector").config(map=quiet)
    return hv.register(hv.configure(builder).getOrCreate())


def _collected(frame: DataFrame, *order: str) -> list[dict[str, Any]]:
    """The rows in order; sorted here, since Spark would compute them twice to sort them."""
    from pyspark.errors import PySparkException

    from hudi_vector.spark.worker_errors import from_worker

    try:
        rows = [row.asDict() for row in frame.collect()]
    except PySparkException as problem:
        raise from_worker(problem) or problem from None
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
