"""Commands and groups of commands: their help, their former names, and the nearest name to a mistyped one.

They are made with click: typer needs Python 3.11 and pydantic, and this package runs on Python 3.10.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from hudi_vector.command.endings import WRONG_USE, Ended, ended, expected, is_interrupted
from hudi_vector.errors import did_you_mean

__all__ = ["HELP", "METRICS", "Command", "Group", "wrong_use"]

HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""The context settings of every command."""
METRICS = "hudi_vector.metrics"
"""The key, in the contexts of click, of the file for the metrics of a command."""

_ALIKE = 0.6  # how alike a name must be to be proposed


class Command(click.Command):
    """A command whose expected errors end it with one sentence."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raise Ended for an error that users may meet, and Abort for any after SIGINT."""
        from hudi_vector.progress import without_bars

        try:
            with without_bars() if ctx.params.get("quiet") else nullcontext(), _counted(ctx.meta.get(METRICS)):
                return super().invoke(ctx)
        except Exception as problem:
            if is_interrupted():
                raise click.Abort from problem
            if isinstance(problem, expected()):
                raise ended(_name(ctx), problem) from problem
            raise


@contextmanager
def _counted(file: str | None) -> Iterator[None]:
    """Count what the block does, and write metrics to a file when it ends, also if it fails; without a file do nothing.

    Raises InvalidArgumentError before the block if the file cannot be written.
    """
    if file is None:
        yield
        return
    from hudi_vector.metrics.api import registry, require_writable, write_text

    require_writable(file)
    registry()
    try:
        yield
    finally:
        write_text(file)


class Group(click.Group):
    """A group of commands in the order in which they were added; former names of commands are not listed."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._former: dict[str, click.Command] = {}

    def known_as(self, name: str, command: click.Command) -> None:
        """Let a command of another group be called by its former name too, without showing that name."""
        self._former[name] = command

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        """Return the names that the help shows."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command with a name or a former name."""
        return self.commands.get(cmd_name) or self._former.get(cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; without any, show the help and end as for wrong use."""
        if not args and not ctx.resilient_parsing:
            sys.stderr.write(ctx.get_help() + "\n")
            ctx.exit(WRONG_USE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names; raise Ended, with the nearest names, if there is none."""
        if args and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            if args[0].startswith("-"):
                raise Ended(WRONG_USE, _no_option(ctx, args[0]))
            hint = did_you_mean(args[0], [*self.commands, *self._former], most=2, alike=_ALIKE) or _see(ctx)
            raise Ended(WRONG_USE, f"'{ctx.command_path}' has no command '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)

    def make(self, name: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
        """Return a decorator that adds a function as a command; its docstring is the help."""
        return self.command(name, context_settings=HELP, **settings)


def wrong_use(problem: click.UsageError) -> str:
    """Return an error of click about arguments as one sentence."""
    ctx, text = problem.ctx, problem.message.strip().rstrip(".")
    text = f"{text[:1].lower()}{text[1:]}"
    if ctx is None:
        return text
    if isinstance(problem, click.NoSuchOption):
        return _no_option(ctx, problem.option_name)
    if isinstance(problem, click.MissingParameter) and problem.param is not None:
        return f"give {_spelled(problem.param)}; {_see(ctx)}"
    if isinstance(problem, click.BadParameter) and problem.param is not None:
        return f"{_spelled(problem.param)}: {text}"
    return f"{text}; {_see(ctx)}"


def _no_option(ctx: click.Context, given: str) -> str:
    known = [name for param in ctx.command.get_params(ctx) for name in param.opts if name.startswith("--")]
    hint = did_you_mean(given, known, most=2, alike=_ALIKE) or _see(ctx)
    return f"'{ctx.command_path}' has no option '{given}'; {hint}"


def _spelled(param: click.Parameter) -> str:
    return max(param.opts, key=len) if isinstance(param, click.Option) else (param.name or "").upper()


def _see(ctx: click.Context) -> str:
    return f"see '{ctx.command_path} --help'"


def _name(ctx: click.Context) -> str:
    """Return the name of a command as it was called, with its group."""
    return ctx.command_path.partition(" ")[2] or ctx.command_path
