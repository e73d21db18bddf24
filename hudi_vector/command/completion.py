"""Completion by a shell: the script that it needs, and the file where it looks for one."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from hudi_vector.command.endings import PROBLEMS, WRONG_USE, Ended

__all__ = ["installed", "script"]

_PROGRAM = "hudi-vector"
_SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """Return the script for a shell; "" takes the shell of ``$SHELL``."""
    chosen = get_completion_class(_named(shell))
    assert chosen is not None
    return chosen(click.Command(_PROGRAM), {}, _PROGRAM, "_HUDI_VECTOR_COMPLETE").source()


def installed(shell: str) -> str:
    """Write the script where the shell looks for it, and return a sentence that says where, and what is left to do."""
    name = _named(shell)
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    place, then = {
        "bash": (
            data / "bash-completion/completions/hudi-vector",
            "shells that you start now complete, if the package bash-completion is there",
        ),
        "zsh": (
            Path("~/.zfunc/_hudi-vector").expanduser(),
            "put 'fpath+=~/.zfunc' into ~/.zshrc, above its line with compinit, and start a new shell",
        ),
        "fish": (settings / "fish/completions/hudi-vector.fish", "shells that you start now complete"),
    }[name]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script(name), encoding="utf-8")
    except OSError as problem:
        raise Ended(PROBLEMS, f"'{place}' cannot be written: {problem.strerror}") from problem
    return f"'{place}' is written; {then}"


def _named(shell: str) -> str:
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        given = f"'{name}'" if name else "no shell that is known here"
        raise Ended(WRONG_USE, f"{given} is none that completes; give one of {', '.join(_SHELLS)}")
    return name
