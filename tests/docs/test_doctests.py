"""Every `>>>` of a docstring runs, on names that the example, its module or docs/examples/prelude.py makes."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.pages import own_database, quick_defaults

import hudi_vector

PACKAGE = Path(hudi_vector.__file__).parent
PRELUDE = PACKAGE.parent / "docs" / "examples" / "prelude.py"
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
FOLDER = re.compile(r"(?<=[\"'/])/(?:tables(?=/(?:products|photos|albums|things|moved)\b)|tmp(?=/))")
"""Folders of examples that read or write; other paths in examples are text."""


WITH_TORCH = PACKAGE / "integrations" / "torch.py"
"""PyTorch is not among what tests install; `make torch-test` runs the examples of this file."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def examples(module: ModuleType) -> list[doctest.DocTest]:
    """The docstrings of a module that hold examples."""
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


def needs_a_session(path: Path) -> bool:
    """Whether an example of the file uses a table, or a name that neither it nor its module makes; nothing is imported."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    own = {*dir(builtins), *made_by(module.body)}
    for node in with_examples(module):
        made = set(own)
        for example in doctest.DocTestParser().get_examples(ast.get_docstring(node) or ""):
            tree = ast.parse(example.source)
            made |= made_by(ast.walk(tree))
            if FOLDER.search(example.source) or {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - made:
                return True
    return False


def with_examples(module: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    """A module, its functions, and its classes with what is in them: where doctest finds examples."""
    found: list[ast.Module | ast.ClassDef | ast.FunctionDef] = [module]
    for node in found:
        yield node
        if not isinstance(node, ast.FunctionDef):
            found += [inner for inner in node.body if isinstance(inner, (ast.ClassDef, ast.FunctionDef))]


def made_by(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that statements bring about."""
    made: set[str] = set()
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            made |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            made |= made_by(node.targets if isinstance(node, ast.Assign) else [node.target])
    return made


class Checker(doctest.OutputChecker):
    """What an example shows must come out; one that shows nothing only has to run."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return want == "" or super().check_output(want, got, optionflags)


def run(path: Path, names: dict[str, object], folder: str | None = None) -> None:
    """Run the examples of a file; the report of those that fail is the message."""
    if path == WITH_TORCH:
        pytest.importorskip("torch", reason="PyPI's torch for Linux brings 3 GB of CUDA; `make torch-test` runs this")
    module = importlib.import_module(module_name(path))
    report: list[str] = []
    for test in examples(module):
        test.globs = {**names, **vars(module)}
        for example in test.examples:
            if folder is not None:
                example.source = FOLDER.sub(folder, example.source)
                example.want = FOLDER.sub(folder, example.want)
        runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=doctest.ELLIPSIS)
        runner.run(test, out=report.append)
    assert not report, "\n".join(report)


PLAIN = [path for path in FILES if not needs_a_session(path)]
ON_TABLES = [path for path in FILES if path not in PLAIN]


@pytest.mark.parametrize("path", PLAIN, ids=module_name)
def test_examples_that_need_nothing(path):
    run(path, {})


@pytest.fixture(scope="module")
def names(spark, workspace):
    spec = importlib.util.spec_from_file_location("prelude", PRELUDE)
    assert spec is not None
    assert spec.loader is not None
    prelude = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prelude)
    folder = workspace / "examples"
    folder.mkdir()
    with quick_defaults(spark), own_database(spark, "examples"):
        yield {**prelude.names(spark, str(folder)), "folder": str(folder)}


@pytest.mark.parametrize("path", ON_TABLES, ids=module_name)
def test_examples_on_tables(path, names, spark, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    try:
        run(path, names, str(names["folder"]))
    finally:
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()


def test_no_example_is_hidden_or_left_out():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "+SKIP" not in text, path
        if path == WITH_TORCH and importlib.util.find_spec("torch") is None:
            continue
        found = sum(len(test.examples) for test in examples(importlib.import_module(module_name(path))))
        assert found == len(re.findall(r"^\s*>>> ", text, re.MULTILINE)), path
