"""How fast is a hybrid search? Ours beside what Hudi's native functions and Spark SQL can do, in one run.

    python benchmarks/hybrid.py [--rows 100000] [--dimension 128] [--files 4] [--output bench-output] [--small]

Two VECTOR columns of rows in clusters, weights 0.7 and 0.3, cosine, the 10 best rows. The native way is one search for
each column, of the 100 nearest rows each, joined on the key and weighted: it is not exact, since rows that are in one
list only are lost, and the share of the true rows it finds is printed. Spark SQL computes both distances of every row:
exact, as ours is. Every time is taken through ``spark.sql`` end to end. Prints medians and ratios, writes
``hybrid.json``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import Bench, Way, environment, parser_of, publish, session_in

K, LIST = 10, 100
CLUSTERS = 200
WEIGHTS = (0.7, 0.3)
OURS, RANKS, NORMALIZED = "ours", "ours, by ranks", "ours, normalized"
NATIVE, EXPRESSIONS = "native, two searches and a join", "SQL expressions"


@dataclass(frozen=True)
class Size:
    """How large the table is and how often each time is taken."""

    rows: int
    dimension: int
    files: int
    repeats: int


def main() -> None:
    """Measure everything, print it, write it."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--files", type=int, default=4)
    given = parser.parse_args()
    rows = max(1000, given.rows // 100) if given.small else given.rows
    size = Size(rows, given.dimension, given.files, 1 if given.small else 7)
    about = environment()
    folder = given.output.resolve() / "tables"
    with session_in(folder) as spark:
        bench = Bench(spark, folder, size)
        share = measured(bench)
    medians = bench.results.medians()["hybrid"]
    lines = [f"{way:<34} {medians[way] / medians[OURS]:8.1f} times ours" for way in (NATIVE, EXPRESSIONS)]
    lines.append(f"the native way finds {share:.0%} of the true {K} rows")
    print("\n" + "\n".join(lines))
    publish("hybrid", given, about, {"size": size, "seconds": bench.results.seconds, "native_recall": share})


def measured(bench: Bench[Size]) -> float:
    """Every way in turns; the share of the true rows that the native way finds."""
    table = make_table(bench)
    bench.spark.read.format("hudi").load(table).createOrReplaceTempView("plain")
    queries = _queries(bench.size.dimension)
    ways = {
        OURS: ours_sql(table, queries),
        NORMALIZED: ours_sql(table, queries, ", normalize => true"),
        RANKS: ours_sql(table, queries, ", fusion => 'rrf'"),
        NATIVE: native_sql(table, queries),
        EXPRESSIONS: expression_sql(queries),
    }
    bench.compare("hybrid", {way: _next_of(bench, statements) for way, statements in ways.items()}, bench.size.repeats)
    found = []
    for first, second in itertools.islice(zip(ours_sql(table, queries), native_sql(table, queries), strict=False), 10):
        true = {row["id"] for row in bench.spark.sql(first).collect()}
        found.append(len(true & {row["id"] for row in bench.spark.sql(second).collect()}) / len(true))
    return sum(found) / len(found)


def _next_of(bench: Bench[Size], statements: Iterator[str]) -> Way:
    return Way(lambda: bench.spark.sql(next(statements)).collect())


def make_table(bench: Bench[Size]) -> str:
    """A copy-on-write table of two VECTOR columns, written by Hudi."""
    from pyspark.sql.types import StructField, StructType

    import hudi_vector as hv

    size = bench.size
    path = str(bench.folder / "hybrid")
    vectors = [hv.vector_field("text", size.dimension), hv.vector_field("image", size.dimension)]
    schema = StructType([*bench.spark.range(1).schema.fields, *(StructField(f.name, f.dataType) for f in vectors)])

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            ids = batch.column(0)
            columns = [ids]
            for number in range(2):
                numbers = np.random.default_rng([number, ids[0].as_py() if len(ids) else 0])
                noise = numbers.standard_normal((len(ids), size.dimension))
                own = np.asarray(ids) % CLUSTERS
                values = (centers(number, size.dimension)[own] + 0.7 * noise).astype(np.float32)
                offsets = np.arange(len(ids) + 1, dtype=np.int32) * size.dimension
                columns.append(pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel())))
            yield pa.RecordBatch.from_arrays(columns, names=["id", "text", "image"])

    frame = bench.spark.range(0, size.rows, 1, size.files).mapInArrow(rows, schema)
    hv.write(
        frame, path, record_key="id", vectors={"text": size.dimension, "image": size.dimension}, operation="bulk_insert"
    )
    return path


def centers(number: int, dimension: int) -> np.ndarray:
    """The middles of the clusters in one column."""
    return np.random.default_rng(number).standard_normal((CLUSTERS, dimension))


def _queries(dimension: int) -> list[tuple[str, str]]:
    """Pairs of query vectors near one cluster each, as SQL."""
    noise = 0.7 * np.random.default_rng(7).standard_normal((64, 2, dimension))
    vectors = noise + np.stack([centers(number, dimension)[:64] for number in range(2)], axis=1)
    pairs = [["ARRAY(" + ", ".join(f"{x}D" for x in one) + ")" for one in pair] for pair in vectors.round(4)]
    return [(text, image) for text, image in pairs]


def ours_sql(table: str, queries: list[tuple[str, str]], more: str = "") -> Iterator[str]:
    """Our function, each time with queries of its own."""
    for text, image in queries:
        yield (
            f"SELECT id, score FROM hudi_hybrid_search('{table}', ARRAY('text', 'image'), ({text}, {image}), "
            f"ARRAY({WEIGHTS[0]}, {WEIGHTS[1]}), 'cosine', {K}{more})"
        )


def native_sql(table: str, queries: list[tuple[str, str]]) -> Iterator[str]:
    """Hudi's own function for each column, the lists joined."""
    for text, image in queries:
        one, two = (
            f"(SELECT id, _hudi_distance AS far FROM hudi_vector_search_native('{table}', '{column}', {query}, {LIST}, "
            "'cosine'))"
            for column, query in (("text", text), ("image", image))
        )
        yield (
            f"SELECT a.id, {WEIGHTS[0]} * (1 - a.far) + {WEIGHTS[1]} * (1 - b.far) AS score FROM {one} a JOIN {two} b "
            f"ON a.id = b.id ORDER BY score DESC LIMIT {K}"
        )


def expression_sql(queries: list[tuple[str, str]]) -> Iterator[str]:
    """Both distances of every row by higher-order functions, ordered and limited."""

    def similarity(column: str, query: str) -> str:
        product = f"aggregate(zip_with({column}, {query}, (a, b) -> CAST(a AS DOUBLE) * b), 0D, (s, x) -> s + x)"
        norm = "sqrt(aggregate({0}, 0D, (s, x) -> s + CAST(x AS DOUBLE) * x))"
        return f"{product} / ({norm.format(column)} * {norm.format(query)})"

    for text, image in queries:
        yield (
            f"SELECT id, {WEIGHTS[0]} * {similarity('text', 'q1')} + {WEIGHTS[1]} * {similarity('image', 'q2')} AS "
            f"score FROM (SELECT id, text, image, {text} AS q1, {image} AS q2 FROM plain) ORDER BY score DESC LIMIT {K}"
        )


if __name__ == "__main__":
    main()
