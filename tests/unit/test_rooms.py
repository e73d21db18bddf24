"""The house plan holds: who imports whom, what importing loads, what the repository's root shows."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hudi_vector as hv

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hudi_vector"

_BASE = frozenset({"version", "errors", "options", "schema", "storage", "kernels"})
_TABLE = _BASE | {"table"}
_READ = _TABLE | {"read"}
_INDEX = _READ | {"index"}
_QUERY = _INDEX | {"query"}
_BLOBS = _INDEX | {"blobs"}
_SPARK = _QUERY | _BLOBS | {"spark"}
_SERVICES = _SPARK | {"writing", "streaming", "table_services"}
_ALL = _SERVICES | {"sql", "cli", "jars", "session"}

# The house plan's table: a room may import these.
MAY_IMPORT = {
    **dict.fromkeys(sorted(_BASE), _BASE),
    "table": _TABLE,
    "read": _READ,
    "index": _INDEX,
    "query": _QUERY,
    "blobs": _BLOBS,
    "spark": _SPARK,
    "writing": _SPARK | {"writing"},
    "streaming": _SPARK | {"streaming"},
    "table_services": _SERVICES,
    "sql": _ALL,
    "cli": _ALL,
    "jars": _BASE,
    "session": _BASE | {"jars", "spark", "sql"},  # register looks at the session and installs the SQL functions
    "__main__": frozenset({"cli"}),  # python -m hudi_vector
    "__init__": _ALL,  # resolves public names when they are first used
}
# Rooms in which every module may import pyspark when it is loaded.
SPARK_ROOMS = frozenset({"spark", "sql", "writing", "streaming"})
BARE_ROOMS = frozenset({"sql", "blobs", "table_services"})

# Rooms that users know: their public functions may live elsewhere.
ROOMS_WITH_A_FACE = ("blobs", "index", "table_services")

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The modules a file imports, and whether at module level (``if TYPE_CHECKING`` left out)."""
    tree = ast.parse(path.read_text("utf-8"))
    eager = {id(node) for node in _module_level(tree.body)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the room"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            yield name, id(node) in eager


def faces(room: str) -> frozenset[str]:
    """The dotted names of the public functions of a room, in the modules they live in."""
    homes = getattr(hv, room)._HOMES
    pairs = [home if isinstance(home, tuple) else (home, name) for name, home in homes.items()]
    return frozenset(".".join(pair) for pair in pairs)


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If):
            if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                yield from _module_level([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _module_level([*node.body, *node.orelse, *node.finalbody])
            for handler in node.handlers:
                yield from _module_level(handler.body)
        elif isinstance(node, (ast.With, ast.ClassDef)):
            yield from _module_level(node.body)
        else:
            yield node


def test_every_room_is_in_the_table() -> None:
    assert {room_of(path) for path in MODULES} <= MAY_IMPORT.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    room = room_of(path)
    # What a room shows to users it names for types; it is loaded when it is first used.
    shown = faces(room) if path.name == "__init__.py" and room in ROOMS_WITH_A_FACE else frozenset()
    wrong = []
    for name, _ in imports(path):
        if name in shown:
            continue
        parts = name.split(".")
        if parts[0] != "hudi_vector" or len(parts) == 1:
            continue
        target = parts[1]
        is_room = (PACKAGE / target).exists() or (PACKAGE / f"{target}.py").exists()
        if target.startswith("__") or (target in hv.__all__ and not is_room):
            wrong.append(f"{name}: the root is for users; import from the room")
        elif target != room and target not in MAY_IMPORT[room]:
            wrong.append(name)
    assert not wrong, f"the room '{room}' may not import {wrong}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pyspark_is_loaded_only_where_spark_is_at_work(path: Path) -> None:
    if room_of(path) in SPARK_ROOMS or path.name == "distributed.py":
        return
    eager = [name for name, at_module_level in imports(path) if at_module_level]
    assert not [name for name in eager if name.split(".")[0] in ("pyspark", "py4j")]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_room_is_imported_by_its_bare_name(path: Path) -> None:
    assert not [name for name, _ in imports(path) if name.split(".")[0] in BARE_ROOMS]


def test_nobody_imports_the_front_doors() -> None:
    for path in MODULES:
        if room_of(path) not in ("sql", "cli", "session", "__init__", "__main__"):
            assert not [name for name, _ in imports(path) if name.startswith(("hudi_vector.sql", "hudi_vector.cli"))]


def test_the_public_surface_is_what_is_promised() -> None:
    assert list(hv.__all__) == sorted(hv.__all__, key=lambda name: (not name[0].isupper(), name))  # as ruff sorts them
    assert dir(hv) == sorted(hv.__all__)
    for name in hv.__all__:
        assert getattr(hv, name) is not None
    with pytest.raises(AttributeError, match="module 'hudi_vector' has no attribute 'serch'; did you mean 'search'\\?"):
        _ = hv.serch


def test_the_public_names_are_declared_once() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    typed = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.If)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert typed == set(hv.__all__) - {"__version__"} == set(hv._HOMES) | {"errors", *ROOMS_WITH_A_FACE}


@pytest.mark.parametrize("name", ROOMS_WITH_A_FACE)
def test_a_room_has_public_functions(name: str) -> None:
    room = getattr(hv, name)
    assert room.__all__ == sorted(room._HOMES)
    for function in room.__all__:
        assert inspect.isfunction(getattr(room, function))
        # A module of that name would take the function's place as soon as it is imported.
        assert not (PACKAGE / name / f"{function}.py").exists()
    with pytest.raises(AttributeError, match=rf"module 'hudi_vector\.{name}' has no attribute 'opne'"):
        _ = room.opne


def test_every_all_names_what_is_there() -> None:
    for path in MODULES:
        names = [
            ast.literal_eval(node.value)
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets)
        ]
        for listed in names:
            assert len(set(listed)) == len(listed), path
            if path.name != "__init__.py":
                assert all(name.isidentifier() and f"{name}" in path.read_text("utf-8") for name in listed), path


@pytest.mark.parametrize(
    "statement",
    [
        "import hudi_vector",
        "import hudi_vector.blobs",
        "import hudi_vector.table_services",
        "import hudi_vector.query.opened.standalone",
        "import hudi_vector as hv; hv.open",
        "import hudi_vector.cli",
    ],
)
def test_importing_loads_no_spark(statement: str) -> None:
    code = f"import sys; {statement}; print(sorted({{n.split('.')[0] for n in sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(ast.literal_eval(ran.stdout))
    assert not loaded & {"pyspark", "py4j", "pandas"}
    if statement in ("import hudi_vector", "import hudi_vector.blobs", "import hudi_vector.table_services"):
        assert not loaded & {"pyarrow", "numpy", "fastavro", "hudi", "lance"}


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("blobs", "hudi_vector/blobs"),
        ("sql", "hudi_vector/sql"),
        ("table_services", "hudi_vector/table_services"),
    ],
)
def test_the_signposts_point_at_their_rooms(link: str, target: str) -> None:
    path = ROOT / link
    assert path.is_symlink()
    assert os.readlink(path) == target
    assert path.resolve() == (ROOT / target).resolve()


def test_the_bundles_are_one_file_in_two_places() -> None:
    in_package, in_jars = PACKAGE / "bundles.toml", ROOT / "jars" / "bundles.toml"
    links = [path for path in (in_package, in_jars) if path.is_symlink()]
    assert len(links) == 1, "one is the file, the other a link to it"
    assert not os.path.isabs(os.readlink(links[0]))
    assert in_package.resolve() == in_jars.resolve()


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "pyproject.toml",
        "Makefile",
        "hudi_vector",
        "blobs",
        "table_services",
        "sql",
        "jars",
        "tests",
        "benchmarks",
        "docs",
    ],
)
def test_the_root_shows_the_rooms(name: str) -> None:
    assert (ROOT / name).exists()
