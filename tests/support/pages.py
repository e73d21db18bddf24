"""Pages of the documentation as programs: their code blocks, run one after the other in one namespace."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\s*$")
_EXCUSE = re.compile(r"^<!-- not run: (.+) -->$")
_STATEMENT_END = re.compile(r";[ \t]*(?:--[^\n]*)?(?:\n|$)")
_EXIT = re.compile(r"#.*\bexit code (\d)")
_ID = re.compile(r"\b\d{17}_[0-9a-f]{12}\b")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s")
_LANGUAGES = {"python": "python", "sql": "sql", "sh": "shell", "bash": "shell"}


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, what it is written in, why it is not run, if it is not, and what it prints.

    What it prints is the block of text that follows it, with nothing but blank lines between.
    """

    page: Path
    line: int
    language: str
    text: str
    excuse: str | None
    shown: str | None = None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that are code, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at].strip())
        if fence is None:
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
        excuse = _EXCUSE.match(lines[at - 1].strip()) if at else None
        if fence[1] in _LANGUAGES:
            body = textwrap.dedent("\n".join(lines[at + 1 : end]))
            shown = _shown(lines, end + 1)
            yield Block(page, at + 2, _LANGUAGES[fence[1]], body, excuse[1] if excuse else None, shown)
        at = end + 1


def _shown(lines: list[str], at: int) -> str | None:
    """The block of text that begins at a line or after blank ones."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at == len(lines) or lines[at].strip() != "```text":
        return None
    end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
    return textwrap.dedent("\n".join(lines[at + 1 : end])).strip()


def paragraphs(page: Path) -> Iterator[tuple[int, str]]:
    """The paragraphs and list items of a page, each with its line; tables, code and comments are none."""
    begun, words, in_code = 0, "", False
    for number, line in enumerate([*page.read_text(encoding="utf-8").splitlines(), ""], 1):
        fence = line.strip().startswith("```")
        ends = in_code or fence or not line.strip() or line.lstrip().startswith(("|", "#", "<!--", "!["))
        if words and (ends or _ITEM.match(line)):
            yield begun, words
            words = ""
        if not ends:
            begun, words = (begun, f"{words} {line.strip()}") if words else (number, line.strip())
        in_code ^= fence


@dataclass
class PageRun:
    """What a page has made so far.

    Folders of the examples, `/tmp/` and `/tables/`, lie below one of the test's. In shell blocks `$NAME` is the id that a
    command of the page printed last, and a comment such as `# exit code 1` says how a command ends that does not end well.
    """

    spark: SparkSession
    folder: Path
    namespace: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    def run(self, block: Block) -> None:
        """Run one block; what it raises names the page and the line."""
        text = self.placed(block.text)
        if block.language == "python":
            self._python(block, text)
        elif block.language == "sql":
            self._sql(text)
        else:
            self._shell(text)

    def placed(self, text: str) -> str:
        """The text with its folders below the test's."""
        return re.sub(r"(?<![\w.])/(?:tmp|tables)/", f"{self.folder}/", text)

    def _python(self, block: Block, text: str) -> None:
        tree = ast.parse(text, filename=str(block.page))
        ast.increment_lineno(tree, block.line - 1)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, str(block.page), "exec"), self.namespace)
        if block.shown is not None:
            assert printed.getvalue().strip() == block.shown, f"it prints\n{printed.getvalue()}"

    def _sql(self, text: str) -> None:
        for statement in filter(str.strip, _STATEMENT_END.split(text)):
            rows = self.spark.sql(statement).collect()
            assert rows or not statement.lstrip().upper().startswith(("SELECT", "WITH")), f"no rows: {statement}"

    def _shell(self, text: str) -> None:
        for line in filter(str.strip, text.replace("\\\n", " ").splitlines()):
            wanted = int(found[1]) if (found := _EXIT.search(line)) else 0
            words = shlex.split(re.sub(r"\$\w+", self._last_id, line), comments=True)
            if words[:1] == ["echo"]:
                Path(words[-1]).write_text(f"{words[1]}\n", encoding="utf-8")
            elif words:
                assert words[0] == "hudi-vector", f"only hudi-vector is run here, not {line!r}: mark the block"
                assert self._command(words[1:]) == wanted, f"{line}\n{self.printed}"

    def _last_id(self, name: re.Match[str]) -> str:
        ids: list[str] = _ID.findall(self.printed)
        assert ids, f"no command before printed an id for {name[0]}"
        return ids[-1]

    def _command(self, arguments: list[str]) -> int:
        from hudi_vector.command.main import main

        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main(arguments)
        self.printed += out.getvalue()
        return code


@contextlib.contextmanager
def own_database(spark: SparkSession, name: str) -> Iterator[None]:
    """Tables that are made bear names of their own; behind it they are gone, with streams, views and settings."""
    before = {row["key"]: row["value"] for row in spark.sql("SET").collect()}
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    try:
        yield
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.catalog.clearCache()
        for table in spark.catalog.listTables():
            if table.isTemporary:
                spark.catalog.dropTempView(table.name)
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE {name} CASCADE")
        settings = spark._jsparkSession.sessionState().conf()
        for row in spark.sql("SET").collect():
            if row["key"] not in before:
                settings.unsetConf(row["key"])
            elif row["value"] != before[row["key"]]:  # commands set some that a session refuses to have set later
                settings.setConfString(row["key"], before[row["key"]])


@contextlib.contextmanager
def quick_defaults(spark: SparkSession) -> Iterator[None]:
    """Every write of Hudi is as quick as those of other tests, without a word of that in an example.

    Files are as large as Hudi makes them: pages show what they take.
    """
    from support.quick import FILTERS_OF_HUDI, QUICK

    defaults = spark._jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration
    for key, value in {**QUICK, **FILTERS_OF_HUDI}.items():
        defaults.addToGlobalProps(key, value)
    try:
        yield
    finally:
        defaults.clearGlobalProps()
