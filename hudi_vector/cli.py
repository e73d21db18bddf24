"""The command ``hudi-vector``: thin, it calls the public API only."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hudi_vector.version import __version__

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What stood behind the command; the process's own arguments by default.

    Returns:
        The exit code: 0 done, 1 refused, 2 wrong use.

    Example:
        >>> main(["options"])  # doctest: +ELLIPSIS
        | Key ...
        0
    """
    parser = argparse.ArgumentParser(prog="hudi-vector", description="Vectors and blobs in Apache Hudi tables.")
    parser.add_argument("--version", action="version", version=f"hudi-vector {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("options", help="list every setting with its default and meaning")
    commands.add_parser("bundles", help="list which Hudi bundle belongs to which Spark")
    chosen = parser.parse_args(arguments)
    return {"options": _options, "bundles": _bundles}[chosen.command]()


def _options() -> int:
    from hudi_vector.options import markdown

    sys.stdout.write(markdown())
    return 0


def _bundles() -> int:
    from hudi_vector.jars import known_bundles

    for spark, bundle in known_bundles().items():
        sys.stdout.write(f"Spark {spark}: {bundle.location}{' (tested)' if bundle.proved else ' (not tested)'}\n")
    return 0
