"""The house: its packages, the half that each belongs to, and what each may import. One row a package.

`tests/unit/test_rooms.py` holds the code against these rows, and ``make docs`` makes the table of docs/explanation/architecture.md of
them. A package is written as below ``hudi_vector``; a module that lies at the top stands for itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "HALVES",
    "MOST_MODULES",
    "PACKAGE",
    "ROOMS",
    "Room",
    "circles",
    "imports",
    "module_of",
    "modules",
    "page",
    "room_of",
    "statements",
]

PACKAGE = Path(__file__).resolve().parents[2] / "hudi_vector"
HALVES = ("ground", "vectors", "blobs", "both")
MOST_MODULES = 15


@dataclass(frozen=True)
class Room:
    """A package: its name, its half, and the packages it imports, with blanks between them.

    The ground imports no half, and the halves do not import each other. What is of both may import either.
    """

    name: str
    half: str
    imports: str

    @property
    def duty(self) -> str:
        """The first line of its docstring."""
        path = PACKAGE / self.name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").splitlines()[0]


_TABLE = """
version                     ground
errors                      ground
events                      ground
container_formats           ground
options                     ground   container_formats errors
schema                      ground   arguments errors
arguments                   ground   errors
workers                     ground   errors
executors                   ground   errors read storage table workers
jars                        ground   errors
progress                    ground
quiet                       ground   jars spark.catalyst
shown                       ground
kernels                     ground   errors kernels.metrics
kernels.metrics             ground   errors kernels
storage                     ground   arguments errors options storage.credentials
storage.credentials         ground   errors storage
table                       ground   errors options schema storage
read                        ground   errors kernels read.parquet read.predicate schema storage table
read.parquet                ground   errors kernels options read read.predicate storage table
read.predicate              ground   arguments errors schema
read.logs                   ground   errors kernels read read.parquet storage table
spark.catalyst              ground   errors read read.predicate schema table version workers
spark                       ground   arguments errors options read read.predicate schema spark.catalyst storage table
index                       vectors  errors index.calibration index.kinds index.packs kernels kernels.metrics read
                                     read.logs read.parquet storage table
index.kinds                 vectors  errors index kernels kernels.metrics read read.parquet storage
index.packs                 vectors  errors index index.kinds kernels read read.logs read.parquet storage
index.calibration           vectors  errors index index.kinds kernels kernels.metrics read read.parquet storage
query                       vectors  arguments errors events executors index index.calibration index.kinds kernels
                                     kernels.metrics options query.grouping query.indexed query.lance query.receipts
                                     read read.logs read.parquet read.predicate schema shown storage table
query.receipts              vectors  arguments errors kernels.metrics options query query.grouping read read.predicate
                                     shown storage table version
query.asking                vectors  errors kernels kernels.metrics read read.predicate
query.files                 vectors  errors options read read.parquet schema storage table
query.lance                 vectors  errors index.calibration index.kinds kernels kernels.metrics query query.files
                                     read read.parquet schema storage table
query.indexed               vectors  errors index index.calibration index.kinds index.packs kernels kernels.metrics
                                     query query.lance read read.parquet storage
query.grouping              vectors  arguments errors kernels read.predicate schema
query.grouped               vectors  kernels kernels.metrics query query.grouping read read.predicate
query.hybrid                vectors  arguments errors index.calibration kernels kernels.metrics query query.grouped
                                     query.grouping read read.logs read.parquet
query.join                  vectors  errors kernels kernels.metrics query query.asking query.grouped query.grouping
                                     read read.predicate schema table
query.opened                vectors  arguments errors events index kernels.metrics options query query.files
                                     query.grouped query.grouping query.lance read read.logs read.parquet read.predicate
                                     shown storage table workers
query.changes               vectors  errors query.opened read table
query.replays               vectors  errors index kernels.metrics query query.grouped query.grouping query.opened
                                     query.receipts shown storage table
replays                     vectors  arguments errors options query query.receipts query.replays spark.search table
                                     table_services
spark.search                vectors  arguments errors events kernels kernels.metrics options query query.asking
                                     query.changes query.files query.grouped query.grouping query.join read
                                     read.predicate schema spark spark.catalyst storage table
spark.hybrid                vectors  arguments errors kernels kernels.metrics options query query.asking query.grouping
                                     query.hybrid read spark spark.catalyst spark.search
spark.join                  vectors  arguments errors index kernels.metrics options query query.asking query.files
                                     query.grouping query.join query.lance read read.parquet read.predicate schema spark
                                     spark.catalyst spark.join.routes spark.search storage table
spark.join.routes           vectors  errors events executors index kernels.metrics options query query.asking
                                     query.files query.grouped query.grouping query.join query.opened read
                                     read.predicate schema spark.catalyst spark.join spark.search table
streaming                   vectors  arguments errors kernels kernels.metrics options query query.asking query.changes
                                     query.grouped query.grouping query.join query.opened read read.predicate spark
                                     spark.catalyst spark.search storage streaming.snapshots table
streaming.snapshots         vectors  errors index options query query.asking read.predicate spark spark.catalyst storage
                                     streaming table
writing.vectors             vectors  errors schema spark.catalyst
table_services.vector_index vectors  arguments errors events executors index index.calibration index.kinds index.packs
                                     kernels.metrics options progress query query.files query.opened read shown spark
                                     spark.search storage table table_services
blobs                       blobs    container_formats errors options schema storage
blobs.containers            blobs    blobs container_formats errors storage
blobs.uploads               blobs    blobs blobs.containers errors storage
blobs.reading               blobs    arguments blobs blobs.uploads errors options read read.logs read.parquet schema
                                     storage table
blobs.samples               blobs    arguments blobs blobs.reading blobs.scans errors read read.predicate schema storage
                                     table
blobs.scans                 blobs    blobs blobs.reading errors read read.logs read.parquet storage table
blobs.counts                blobs    arguments blobs blobs.reading blobs.scans blobs.uploads errors options storage
                                     table
blobs.copies                blobs    blobs blobs.containers blobs.reading blobs.uploads errors storage
blobs.storing               blobs    blobs blobs.containers blobs.uploads errors storage
spark.blobs                 blobs    arguments blobs blobs.counts blobs.reading blobs.scans blobs.uploads errors options
                                     schema spark spark.catalyst storage table workers
writing.blobs               blobs    arguments blobs blobs.containers blobs.storing blobs.uploads errors options schema
                                     spark spark.catalyst storage table writing writing.committing
writing.rewriting           blobs    arguments blobs blobs.containers blobs.copies errors kernels read schema spark
                                     spark.blobs spark.catalyst storage table writing writing.blobs writing.committing
table_services.retention    blobs    blobs.uploads errors storage table
table_services.plans        blobs    blobs blobs.uploads errors shown storage table
table_services.references   blobs    blobs blobs.uploads errors progress read read.logs storage table
                                     table_services.retention workers
table_services.trash        blobs    blobs errors storage table_services
table_services.marking      blobs    blobs blobs.uploads errors storage table table_services table_services.plans
                                     table_services.references table_services.retention table_services.trash
table_services.cleaning     blobs    arguments blobs blobs.uploads errors events options progress shown spark.catalyst
                                     storage table table_services table_services.marking table_services.plans
                                     table_services.references table_services.retention table_services.trash writing
table_services.compaction   blobs    arguments blobs blobs.copies blobs.counts blobs.uploads errors events options
                                     progress spark.blobs spark.catalyst storage table table_services
                                     table_services.cleaning table_services.marking table_services.plans
                                     table_services.retention writing writing.blobs writing.committing writing.rewriting
table_services.clustering   blobs    arguments blobs errors events read schema spark spark.blobs spark.catalyst storage
                                     table table_services table_services.compaction table_services.plans
                                     table_services.retention writing writing.blobs writing.committing writing.rewriting
writing.committing          both     errors spark.catalyst table writing
writing                     both     arguments blobs.storing blobs.uploads errors options progress schema shown spark
                                     spark.catalyst storage table writing.blobs writing.committing writing.erased
                                     writing.vectors
table_services              both     arguments blobs blobs.uploads errors options shown spark storage table
                                     table_services.references
writing.erased              both     errors options schema spark spark.catalyst storage
table_services.erasure      both     arguments blobs blobs.uploads errors events index index.packs options progress
                                     read read.logs shown spark spark.catalyst storage table table_services
                                     table_services.cleaning table_services.clustering table_services.compaction
                                     table_services.marking table_services.plans table_services.references
                                     table_services.retention table_services.trash table_services.vector_index writing
                                     writing.erased writing.blobs writing.rewriting
table_services.maintenance  both     arguments blobs errors events options shown spark.blobs spark.catalyst storage
                                     table_services table_services.cleaning table_services.clustering
                                     table_services.compaction table_services.plans table_services.trash
                                     table_services.vector_index
vectors                     both     arguments errors events options progress query.opened read read.logs schema shown
                                     spark.blobs spark.catalyst spark.search storage table table_services
                                     table_services.retention table_services.vector_index writing writing.committing
                                     writing.rewriting
metrics                     both     arguments errors events index options query read storage table table_services
                                     table_services.maintenance table_services.plans
integrations                both     arguments blobs.samples errors events index kernels.metrics options query
                                     query.opened read.predicate schema sessions storage table workers writing
sql                         both     errors spark.blobs spark.catalyst spark.hybrid spark.join spark.search streaming
worker_daemon               both     blobs.storing query query.join spark.blobs writing.blobs writing.rewriting workers
sessions                    both     arguments errors jars quiet spark.catalyst sql
command                     both     arguments blobs command.vectors errors index.kinds jars kernels.metrics metrics options
                                     progress query query.opened read schema spark.catalyst storage table table_services
                                     table_services.cleaning table_services.clustering table_services.erasure
                                     table_services.maintenance table_services.plans version
command.vectors             both     command errors
__main__                    both     command
"""


def _rooms() -> tuple[Room, ...]:
    """Read the table: a line that begins with a blank goes on with the imports of the one before."""
    rows: list[list[str]] = []
    for line in _TABLE.strip().splitlines():
        if line.startswith(" "):
            rows[-1] += line.split()
        else:
            rows.append(line.split())
    return tuple(Room(name, half, " ".join(imports)) for name, half, *imports in rows)


ROOMS = _rooms()


def modules() -> list[Path]:
    """Every file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


@cache
def module_of(path: Path) -> str:
    """The name of a file's module below the package, such as ``read.spec``; empty for the root."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def room_of(module: str) -> str:
    """The package of a module: the module itself where that is a package, or lies at the top."""
    if (PACKAGE / module.replace(".", "/")).is_dir():
        return module
    return module.rpartition(".")[0] or module


@cache
def _known() -> frozenset[str]:
    return frozenset(map(module_of, modules()))


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports anywhere in it, named below the package."""
    for node in statements(ast.parse(path.read_text("utf-8"))):
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
        for name in names:
            top, _, rest = name.partition(".")
            if top == "hudi_vector" and rest:
                yield rest if rest in _known() else rest.rpartition(".")[0]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All that is in a module, class or function but expressions, which are nine tenths of it and hold no statement."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, name, ()):
            yield inner
            yield from statements(inner)


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Circles of a graph: one for each place where a walk comes back to where it is."""
    found: list[list[str]] = []
    state: dict[str, bool] = {}

    def walk(node: str, way: list[str]) -> None:
        state[node] = False
        for other in edges.get(node, ()):
            if state.get(other) is False:
                found.append([*way[way.index(other) :], other])
            elif other not in state:
                walk(other, [*way, other])
        state[node] = True

    for start in edges:
        if start not in state:
            walk(start, [start])
    return found


def page() -> str:
    """The table of docs/explanation/architecture.md."""
    lines = ["| package | half | duty | imports |", "| --- | --- | --- | --- |"]
    for room in ROOMS:
        shown = ", ".join(f"`{name}`" for name in room.imports.split() if name != "errors")
        lines.append(f"| `{room.name}` | {room.half} | {room.duty} | {shown} |")
    return "\n".join(lines)
