"""Processes of contestants: each library searches in one of its own, with the interpreter that has it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SEARCHER = Path(__file__).with_name("searcher.py")


@dataclass(frozen=True)
class Contestant:
    """Who searches a table.

    Attributes:
        name: For people.
        kind: ``index`` or ``exact``: what it is compared with.
        task: What its processes are given; the fields of `searcher.Task`.
        interpreter: Its Python.
    """

    name: str
    kind: str
    task: dict[str, Any]
    interpreter: str = sys.executable


@dataclass
class Process:
    """A process of a contestant, that waits for its next step."""

    ran: subprocess.Popen[str]

    def ask(self, content: dict[str, Any]) -> dict[str, Any]:
        """Let it do one thing, and wait for the answer."""
        assert self.ran.stdin
        assert self.ran.stdout
        self.ran.stdin.write(json.dumps(content) + "\n")
        self.ran.stdin.flush()
        line = self.ran.stdout.readline()
        if not line:
            raise RuntimeError("A process that searches has ended; what it said is on the error output.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def search(
        self, queries: Any, condition: str | None, effort: dict[str, Any], modules: bool = False
    ) -> dict[str, Any]:
        """Search for queries, one after another."""
        return self.ask({"queries": queries.tolist(), "filter": condition, "effort": effort, "modules": modules})


def has_lancedb(interpreter: str) -> bool:
    """Return whether an interpreter has LanceDB."""
    seen = subprocess.run([interpreter, "-c", "import lancedb, numpy"], capture_output=True, check=False)
    return seen.returncode == 0


@contextlib.contextmanager
def process_of(who: Contestant) -> Iterator[tuple[Process, str]]:
    """A new process that has loaded its modules, and the version of its library."""
    root = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    if who.interpreter != sys.executable:
        environment.pop("PYTHONPATH")
    started = subprocess.Popen(
        [who.interpreter, str(_SEARCHER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        process = Process(started)
        yield process, process.ask(who.task)["version"]
    finally:
        assert started.stdin
        assert started.stdout
        started.stdin.close()
        try:
            started.wait(60)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        started.stdout.close()
