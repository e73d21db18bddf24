"""The command ``hudi-vector``: thin, it calls the public API only."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import HudiVectorError
from hudi_vector.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What stood behind the command; the process's own arguments by default.

    Returns:
        The exit code: 0 done, 1 something was found wrong, 2 wrong use, or a table or file that is not as it must be.

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
        return 2


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
    return parser


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
