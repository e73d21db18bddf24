"""Commands that show what this package knows: its settings, and the bundles of Hudi."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Any

import click

from hudi_vector.command.arguments import among, form
from hudi_vector.command.cells import of_bytes, of_duration
from hudi_vector.command.endings import DONE, PROBLEMS, say
from hudi_vector.command.groups import HELP, Command
from hudi_vector.command.rows import write_rows, write_text

if TYPE_CHECKING:
    from hudi_vector.options import Option

__all__ = ["bundles", "options"]


def _keys() -> list[str]:
    from hudi_vector.options import ALL

    return [option.key for option in ALL]


@click.command(cls=Command, context_settings=HELP)
@click.argument("word", required=False, shell_complete=among(_keys))
@form
def options(word: str | None, form: str) -> int:
    """List the settings, or those that WORD is in.

    A setting is listed if its key or its meaning holds the word.
    """
    from hudi_vector.errors import did_you_mean
    from hudi_vector.options import ALL

    wanted = (word or "").lower()
    found = [option for option in ALL if wanted in f"{option.key} {option.description}".lower()]
    if found and form == "table":
        write_text("\n".join(_entry(option) for option in found))
    elif found:
        write_rows([_row(option) for option in found], form)
    if found:
        return DONE
    say(f"no setting has '{word}' in its key or meaning; {did_you_mean(wanted, _keys()) or 'leave it out to list all'}")
    return PROBLEMS


def _row(option: Option[int] | Option[str]) -> dict[str, Any]:
    return {
        "key": option.key,
        "default": option.default,
        "allowed": option.values.replace("`", ""),
        "unit": option.unit,
        "meaning": option.description.replace("`", ""),
    }


def _entry(option: Option[int] | Option[str]) -> str:
    """Return a setting for people: its key and default in one line, and what it means and allows below it."""
    default: object = option.default
    if isinstance(default, int):
        default = {"bytes": of_bytes, "milliseconds": of_duration}.get(option.unit, str)(default)
    row = _row(option)
    width = min(100, shutil.get_terminal_size().columns)
    text = f"{row['meaning']} Allowed: {row['allowed']}."
    meaning = textwrap.fill(text, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return f"{option.key} = {default}\n{meaning}"


@click.command(cls=Command, context_settings=HELP)
@form
def bundles(form: str) -> int:
    """List which Hudi bundle belongs to which Spark."""
    from hudi_vector.jars import known_bundles

    known = known_bundles().items()
    write_rows([{"spark": spark, "bundle": each.location, "tested": each.proved} for spark, each in known], form)
    return DONE
