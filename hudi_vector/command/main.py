"""The entry point of ``hudi-vector``: its groups of commands, its log, and its exit code."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import click

from hudi_vector.command.blobs import blobs
from hudi_vector.command.completion import installed, script
from hudi_vector.command.endings import DONE, PROBLEMS, WRONG_USE, Ended, say
from hudi_vector.command.groups import HELP, Group, wrong_use
from hudi_vector.command.index import index
from hudi_vector.command.reference import bundles, options
from hudi_vector.command.rows import write_text
from hudi_vector.command.search import explain, replay, search
from hudi_vector.command.services import FORMER, services
from hudi_vector.command.table import table
from hudi_vector.command.vectors.commands import vectors
from hudi_vector.version import __version__

__all__ = ["main"]


def _show_completion(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:  # noqa: ARG001
    if shell is not None and not ctx.resilient_parsing:
        write_text(script(shell))
        ctx.exit(DONE)


def _install_completion(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:  # noqa: ARG001
    if shell is not None and not ctx.resilient_parsing:
        say(installed(shell))
        ctx.exit(DONE)


_of_shell: dict[str, Any] = {
    "metavar": "[SHELL]", "is_flag": False, "flag_value": "", "expose_value": False, "is_eager": True,
}  # fmt: skip


@click.group(cls=Group, context_settings=HELP)
@click.version_option(__version__, prog_name="hudi-vector", message="%(prog)s %(version)s")
@click.option("--show-completion", callback=_show_completion, help="print what a shell needs to complete", **_of_shell)
@click.option("--install-completion", callback=_install_completion, help="put that in its place", **_of_shell)
def _commands() -> None:
    """Vectors and blobs in Apache Hudi tables.

    Exit codes: 0 done, 1 problems found or a failure, 2 wrong use, 3 refused.
    """


for _name, _command in (
    ("search", search),
    ("explain", explain),
    ("replay", replay),
    ("table", table),
    ("index", index),
    ("vectors", vectors),
    ("blobs", blobs),
    ("services", services),
    ("options", options),
    ("bundles", bundles),
):
    _commands.add_command(_command, _name)
for _name, _of_services in FORMER.items():
    _commands.known_as(_name, services.commands[_of_services])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command-line arguments; by default the arguments of the process.

    Returns:
        The exit code: 0 for success or nothing to do; 1 for problems found, or a failure; 2 for wrong use, that is,
        arguments or settings that are not allowed or a table that does not exist; 3 for a run that was refused.

    Example:
        >>> main(["options", "blob.clean.grace", "--format", "csv"])  # doctest: +ELLIPSIS
        key,default,allowed,unit,meaning
        hoodie.blob.clean.grace,86400000,...
        0
    """
    try:
        with _warnings_in_sentences():
            words = None if arguments is None else list(arguments)
            return int(_commands.main(words, "hudi-vector", standalone_mode=False) or DONE)
    except Ended as end:
        say(str(end))
        return end.code
    except click.UsageError as problem:
        say(wrong_use(problem))
        return WRONG_USE
    except click.ClickException as problem:
        say(problem.format_message())
        return PROBLEMS
    except click.Abort:
        say("stopped")
        return PROBLEMS


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
