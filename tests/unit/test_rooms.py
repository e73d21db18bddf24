"""The house plan holds: who imports whom, what importing loads, what the repository's root shows."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support import house

import hudi_vector as hv

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hudi_vector"

# Packages in which every module may import pyspark when it is loaded, with what lies in them.
SPARK_ROOMS = ("spark", "sql", "writing", "streaming")
BARE_ROOMS = frozenset({"sql", "blobs", "table_services"})

# Rooms that users know: their public functions may live elsewhere.
ROOMS_WITH_A_FACE = ("blobs", "index", "metrics", "table_services", "vectors")

# Words that a reader has to read twice, and first words that are no verb. `CONTRIBUTING.md` says how docstrings begin.
_WORDS = "beside|anew|told|stands|nobody|sooner|of its own|of their own|be had|lets go"
RETIRED = re.compile(rf"(?<![a-z])({_WORDS})(?![a-z])", re.IGNORECASE)
NO_VERB = frozenset({"The", "A", "An", "What", "Whether", "How"})
NO_NOUN = frozenset({"What", "Whether", "How"})

MODULES = house.modules()
ROOMS = {room.name: room for room in house.ROOMS}


@cache
def edges() -> dict[str, frozenset[str]]:
    """What each module imports; files are parsed by a test, not by each process that collects tests."""
    return {house.module_of(path): frozenset(house.imports(path)) for path in MODULES}


@cache
def names_of(path: Path) -> tuple[tuple[str, bool], ...]:
    """What a file imports, in full, and whether at module level (``if TYPE_CHECKING`` left out)."""
    tree = ast.parse(path.read_text("utf-8"))
    eager = {id(node) for node in _module_level(tree.body)}
    found = []
    for node in house.statements(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the room"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found += [(name, id(node) in eager) for name in names]
    return tuple(found)


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


def docstrings(path: Path) -> Iterator[tuple[int, str, bool]]:
    """The docstrings of a file, with their lines, and whether each is a function's; those of attributes too."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in (tree, *house.statements(tree)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.lineno, each.value.value, isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _shown(module: str) -> frozenset[str]:
    """What a room shows to users it names for types; it is loaded when it is first used."""
    if module not in ROOMS_WITH_A_FACE:
        return frozenset()
    return frozenset(name.rpartition(".")[0].removeprefix("hudi_vector.") for name in faces(module))


@cache
def _imported() -> dict[str, set[str]]:
    """The packages that each package imports."""
    found: dict[str, set[str]] = {name: set() for name in ROOMS}
    for module, imported in edges().items():
        if module:
            found[house.room_of(module)] |= {house.room_of(other) for other in imported - _shown(module)}
    return {name: others - {name} for name, others in found.items()}


def test_the_table_has_a_row_for_every_package_and_none_else() -> None:
    assert {house.room_of(module) for module in edges() if module} == ROOMS.keys()
    assert len(house.ROOMS) == len(ROOMS)
    assert {room.half for room in house.ROOMS} <= set(house.HALVES)


@pytest.mark.parametrize("name", ROOMS)
def test_a_package_imports_what_its_row_says(name: str) -> None:
    assert _imported()[name] == set(ROOMS[name].imports.split())
    assert ROOMS[name].duty


@pytest.mark.parametrize("name", ROOMS)
def test_the_halves_meet_on_the_ground_only(name: str) -> None:
    allowed = {"ground": {"ground"}, "vectors": {"ground", "vectors", "both"}, "blobs": {"ground", "blobs", "both"}}
    room = ROOMS[name]
    wrong = {other for other in room.imports.split() if ROOMS[other].half not in allowed.get(room.half, house.HALVES)}
    assert not wrong, f"'{name}' is of {room.half} and imports {sorted(wrong)}"


def test_no_room_is_too_full() -> None:
    counted = Counter(house.room_of(module) for module in edges() if house.room_of(module) != module)
    assert not {room: count for room, count in counted.items() if count > house.MOST_MODULES}


def test_imports_have_no_circle() -> None:
    own = {module: imported - _shown(module) for module, imported in edges().items()}
    assert house.circles(own) == []


def test_packages_of_one_parent_have_no_circle() -> None:
    for parent in sorted({"", *(name for name in ROOMS if (house.PACKAGE / name.replace(".", "/")).is_dir())}):
        beside: dict[str, set[str]] = {}
        for module, imported in edges().items():
            child = _child(parent, module)
            if child and module not in ROOMS_WITH_A_FACE:
                beside.setdefault(child, set()).update(filter(None, (_child(parent, other) for other in imported)))
        assert house.circles({child: others - {child} for child, others in beside.items()}) == [], parent


def _child(parent: str, module: str) -> str | None:
    """What of a package holds a module: a package in it, or the module; None where it does not hold it."""
    if parent and not module.startswith(f"{parent}."):
        return None
    return module[len(parent) :].strip(".").partition(".")[0] or None


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_and_have_no_retired_words(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text.split(maxsplit=8)[:8]}"
        for path in MODULES
        if house.room_of(house.module_of(path)) == room
        for line, text, of_function in docstrings(path)
        if RETIRED.search(text) or text.split(maxsplit=1)[0] in (NO_VERB if of_function else NO_NOUN)
    ]
    assert not wrong


def test_names_comments_and_sentences_have_no_retired_words() -> None:
    lines = ((path, line) for path in MODULES for line in path.read_text("utf-8").splitlines())
    assert not [f"{path.relative_to(ROOT)}: {line.strip()}" for path, line in lines if RETIRED.search(line)]


def test_nobody_inside_imports_what_is_for_users() -> None:
    for path in MODULES:
        for name, _ in names_of(path):
            parts = name.split(".")
            if parts[0] == "hudi_vector" and len(parts) == 2 and parts[1] in hv.__all__:
                assert parts[1] in ROOMS, f"{path}: {name} is for users; import from the room"


def test_pyspark_is_loaded_only_where_spark_is_at_work() -> None:
    for path in MODULES:
        if house.module_of(path).partition(".")[0] not in SPARK_ROOMS and path.name != "distributed.py":
            eager = {name.split(".")[0] for name, at_module_level in names_of(path) if at_module_level}
            assert not eager & {"pyspark", "py4j"}, path


def test_no_room_is_imported_by_its_bare_name() -> None:
    for path in MODULES:
        assert not [name for name, _ in names_of(path) if name.split(".")[0] in BARE_ROOMS], path


def test_nobody_imports_the_front_doors() -> None:
    for module, imported in edges().items():
        if module.partition(".")[0] not in ("", "sql", "command", "sessions", "__main__"):
            assert not {name for name in imported if name.partition(".")[0] in ("sql", "command")}, module


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
        "import hudi_vector as hv; hv.open",
        "import hudi_vector.command.main",
    ],
)
def test_importing_loads_no_spark(statement: str) -> None:
    code = f"import sys; {statement}; print(sorted({{n.split('.')[0] for n in sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(ast.literal_eval(ran.stdout))
    assert not loaded & {"pyspark", "py4j", "pandas"}
    if "hv.open" not in statement:
        assert not loaded & {"pyarrow", "numpy", "fastavro", "hudi", "lance", "rich"}


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
        "CONTRIBUTING.md",
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
