"""Where the functions of this package answer otherwise than Hudi 1.2's own: `tests/conformance` asks both, docs lists it.

The page docs/reference/differences-from-hudi.md is written from this list by `make docs`, and the tests show each line of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Q = "ARRAY(1.0, 0.0, 0.0)"


@dataclass(frozen=True)
class Rows:
    """These rows, in any order."""

    values: Sequence[tuple[object, ...]]

    def __str__(self) -> str:
        return ", ".join(f"`{'; '.join(map(str, row))}`" for row in self.values) or "no rows"


@dataclass(frozen=True)
class Any:
    """So many rows of several that fit as well."""

    count: int

    def __str__(self) -> str:
        return f"any {self.count} of them"


@dataclass(frozen=True)
class Columns:
    """Columns of these names, those of the table and Hudi's own left out."""

    names: Sequence[str]

    def __str__(self) -> str:
        return ", ".join(f"`{name}`" for name in self.names)


@dataclass(frozen=True)
class Refused:
    """An error whose text has these words."""

    words: str

    def __str__(self) -> str:
        return f"refused: “{self.words}”"


Outcome = Rows | Any | Columns | Refused


@dataclass(frozen=True)
class Difference:
    """A statement that both take and answer differently; `{f}` is the function, with and without `_native`."""

    name: str
    statement: str
    hudi: Outcome
    here: Outcome
    why: str

    def answers(self) -> tuple[str, str]:
        """Both outcomes in words; which rows came matters only where both gave some."""
        refused = [isinstance(each, Refused) for each in (self.hudi, self.here)]
        hudi, here = (
            "answered" if any(refused) and not mine else str(each)
            for each, mine in zip((self.hudi, self.here), refused, strict=True)
        )
        return hudi, here


VECTOR_SEARCH = (
    Difference(
        "A metric's short name",
        f"SELECT id, _hudi_distance FROM {{f}}('conform_corpus', 'v', {Q}, 1, 'dot')",
        Refused("Unsupported distance metric: 'dot'"),
        Rows([("east", -1.0)]),
        "RFC-102 and Hudi's tests have both names; Hudi 1.2 knows `dot_product` and `inner_product` alone.",
    ),
    Difference(
        "A very large k",
        f"SELECT id FROM {{f}}('conform_corpus', 'v', {Q}, 200000)",
        Rows([("east",), ("north",), ("up",), ("plane",), ("space",)]),
        Refused("k must be a whole number from 1 to 100000"),
        "The k best rows of a query are held in memory: a limit, and a sentence that names it.",
    ),
    Difference(
        "A seventh argument",
        "SELECT id FROM {f}('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 1, 'cosine', 'brute_force', "
        "\"label = 'between two'\")",
        Refused("expects 4-6 arguments"),
        Rows([("plane",)]),
        "`filter` and `max_distance`, which Hudi plans for a later release, are here already.",
    ),
    Difference(
        "Arguments by name",
        f"SELECT id FROM {{f}}(table => 'conform_corpus', embedding_col => 'v', query_vector => {Q}, k => 1)",
        Refused("must be a string literal"),
        Rows([("east",)]),
        "RFC-102 writes its examples with names.",
    ),
    Difference(
        "A subquery as table",
        f"SELECT id FROM {{f}}(TABLE(SELECT id, v FROM conform_corpus WHERE id <> 'east'), 'v', {Q}, 1)",
        Refused("must be a string literal"),
        Rows([("plane",)]),
        "A table argument needs no view made before.",
    ),
    Difference(
        "A query vector from a subquery",
        "SELECT id FROM {f}('conform_corpus', 'v', (SELECT v FROM conform_asked WHERE id = 'qx'), 1)",
        Refused("must be a constant expression"),
        Rows([("east",)]),
        "A scalar subquery has one value, known before the search.",
    ),
    Difference(
        "A query vector with NaN",
        "SELECT id FROM {f}('conform_corpus', 'v', ARRAY(DOUBLE('NaN'), 0.0D, 0.0D), 3)",
        Any(3),
        Refused("holds NaN or infinity"),
        "No row is nearer than another to NaN: Hudi returns rows at random.",
    ),
    Difference(
        "A row with NaN",
        f"SELECT id FROM {{f}}('conform_nan', 'v', {Q}, 3)",
        Rows([("a",), ("n",)]),
        Rows([("a",)]),
        "Such a row is near to nothing: it is left out, and the report counts it.",
    ),
    Difference(
        "A row whose vector holds NULL",
        f"SELECT id FROM {{f}}('conform_hole', 'v', {Q}, 3)",
        Refused("Failed to execute user defined function"),
        Rows([("a",)]),
        "One broken row must not end a query: it is left out, and the report counts it.",
    ),
    Difference(
        "A row of another length in a plain array column",
        f"SELECT id FROM {{f}}('conform_ragged', 'v', {Q}, 3)",
        Refused("Failed to execute user defined function"),
        Rows([("a",)]),
        "The same. Where the query fits no row at all, it is refused here too.",
    ),
    Difference(
        "A query beyond the range of TINYINT",
        "SELECT id FROM {f}('conform_byte', 'v', ARRAY(200.0, 0.0, 0.0), 1, 'cosine')",
        Refused("is out of range for byte corpus"),
        Rows([("a",)]),
        "Distances are computed in float64, where 200 means something.",
    ),
    Difference(
        "A query with fractions for TINYINT",
        "SELECT id FROM {f}('conform_byte', 'v', ARRAY(1.5, 0.0, 0.0), 1, 'cosine')",
        Refused("is not a whole number"),
        Rows([("a",)]),
        "The same: an unquantised query is more exact than a quantised one.",
    ),
    Difference(
        "Queries of another element type",
        "SELECT id FROM {f}_batch('conform_corpus', 'v', 'conform_asked_double', 'v', 1)",
        Refused("Both must use the same element type"),
        Rows([("east",)]),
        "The same: every number is taken as the float64 it is.",
    ),
    Difference(
        "The vector itself",
        f"SELECT id, v FROM {{f}}('conform_corpus', 'v', {Q}, 1)",
        Refused("`v` cannot be resolved"),
        Rows([("east", [1.0, 0.0, 0.0])]),
        "It is absent from `*` as in Hudi, and there when named.",
    ),
    Difference(
        "The rank",
        f"SELECT id, _rank FROM {{f}}('conform_corpus', 'v', {Q}, 1)",
        Refused("`_rank` cannot be resolved"),
        Rows([("east", 1)]),
        "A column more, absent from `*`.",
    ),
    Difference(
        "The columns of `*`",
        f"SELECT * FROM {{f}}('conform_corpus', 'v', {Q}, 1)",
        Columns(["_hudi_distance"]),
        Columns(["_distance", "_hudi_distance"]),
        "RFC-102 says `_distance`, Hudi 1.2 `_hudi_distance`: `*` has both, so that either is there after a view or a "
        "join. `hoodie.vector.search.distance.columns` chooses, for an INSERT by position into a table made by Hudi.",
    ),
    Difference(
        "Rows of equal distance",
        f"SELECT id FROM {{f}}('conform_same', 'v', {Q}, 2)",
        Any(2),
        Rows([("a",), ("b",)]),
        "The answer to a query is the same each time: rows come in [a documented order](sql.md#hudi_vector_search).",
    ),
)

READ_BLOB = (
    Difference(
        "In aggregates",
        "SELECT max(length({f}(img))) AS n FROM conform_photos",
        Refused("may only appear in SELECT or WHERE"),
        Rows([(10240,)]),
        "It is a function like any other.",
    ),
    Difference(
        "In ORDER BY",
        "SELECT id FROM conform_photos WHERE id > 3 ORDER BY length({f}(img))",
        Refused("may only appear in SELECT or WHERE"),
        Rows([(4,), (5,), (6,)]),
        "The same.",
    ),
    Difference(
        "In the condition of an inner join",
        "SELECT p.id FROM conform_photos p JOIN conform_photos q ON {f}(p.img) = {f}(q.img) AND p.id = q.id WHERE p.id > 4",
        Refused("may only appear in SELECT or WHERE"),
        Rows([(5,), (6,)]),
        "The same; in outer joins Spark refuses it.",
    ),
    Difference(
        "A table joined with itself",
        "SELECT a.id, length({f}(a.img)) AS x, length({f}(b.img)) AS y FROM conform_photos a JOIN conform_photos b "
        "ON a.id = b.id - 1 WHERE a.id = 4",
        Rows([(4, 2, 2)]),
        Rows([(4, 10240, 2)]),
        "Hudi 1.2 gives the bytes of one side for both, without a word.",
    ),
    Difference(
        "A blob in a struct",
        "SELECT {f}(doc.scan) AS b FROM conform_photos WHERE id = 4",
        Refused("no valid blob column reference"),
        Rows([(b"\n\x0b",)]),
        "Blobs in structs are blobs.",
    ),
    Difference(
        "A part of a blob",
        "SELECT {f}(img, 0, 2) AS b FROM conform_photos WHERE id = 1",
        Refused("expects exactly 1 argument"),
        Rows([(b"\x00\x01",)]),
        "`read_blob(blob, offset, length)` reads no more than it gives.",
    ),
    Difference(
        "Ranges that overlap",
        "SELECT id, length({f}(img)) AS n FROM conform_over",
        Refused("Overlapping blob ranges"),
        Rows([(0, 100), (1, 100)]),
        "Two rows may refer to the same bytes.",
    ),
    Difference(
        "One range of two rows",
        "SELECT id, length({f}(img)) AS n FROM conform_same",
        Refused("Overlapping blob ranges"),
        Rows([(0, 100), (1, 100)]),
        "The same.",
    ),
    Difference(
        "A reference without a length",
        "SELECT length({f}(img)) AS n FROM conform_half",
        Refused("length"),
        Rows([(10240,)]),
        "The schema's comment says that such a reference goes to the end of the file.",
    ),
)

DIFFERENCES = (*VECTOR_SEARCH, *READ_BLOB)

_HEAD = """# Differences from Hudi 1.2's own functions

Statements written for `hudi_vector_search`, `hudi_vector_search_batch` and `read_blob` of Hudi 1.2 run here as they are;
`tests/conformance` asks the cases of Hudi's own tests of both. Where the two answer differently is in the table, which is
generated by `make docs` from `tests/support/differences.py`: the tests run each line of it on both sides. Apart from these, the
words of errors differ: every error here says what was given, what is allowed and what to do.

"""


def page() -> str:
    """The text of docs/reference/differences-from-hudi.md."""
    lines = [_HEAD]
    for title, differences in (("Vector search", VECTOR_SEARCH), ("Blobs", READ_BLOB)):
        lines.append(f"## {title}\n\n| | Hudi 1.2.0 | here | why |\n| --- | --- | --- | --- |\n")
        lines += [f"| {each.name} | {' | '.join(each.answers())} | {each.why} |\n" for each in differences]
        lines.append("\n")
    return "".join(lines).rstrip("\n") + "\n"
