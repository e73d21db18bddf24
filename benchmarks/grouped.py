"""What do the best k per group cost, and how often is what users do without them wrong?

    python benchmarks/grouped.py [--documents 10000] [--dimension 128] [--files 8] [--output bench-output] [--small]

Documents of 24 chunks on average, most of fewer, some of up to 1,000 (a Pareto distribution); the vectors of the chunks
of a document lie around its middle. Each query lies near a chunk, so that large documents are asked for more often. The
k = 10 nearest documents are wanted.

The usual way asks for k × 20 rows and keeps the best of each document with a window function. Where these rows hold
fewer than k documents its answer is short, which is counted over many queries; otherwise it is right. The same query
without groups is measured too: through ``spark.sql``, and by `hv.open` with the vectors in memory and by an index with
a recall target, of which the recall in groups is printed. Prints medians, writes ``grouped.json``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import Bench, Way, environment, parser_of, publish, session_in

K, TIMES, ROWS = 10, 20, 3
ASKED = 400
ROWS_ONLY, GROUPS, MORE, WINDOW = "k rows", "k groups", f"k groups, {ROWS} rows each", "k × 20 rows and a window"
TARGET = 0.95


@dataclass(frozen=True)
class Size:
    """How large the table is, and how often each time is taken."""

    documents: int
    dimension: int
    files: int
    repeats: int


@dataclass(frozen=True)
class Chunks:
    """The chunks of all documents: the document of each, and its vector."""

    document: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, size: Size) -> Chunks:
        """Return chunks in random order."""
        numbers = np.random.default_rng(1)
        counts = np.minimum(1000, 1 + numbers.pareto(1.1, size.documents) * 6).astype(int)
        document = numbers.permutation(np.repeat(np.arange(size.documents), counts))
        middles = numbers.standard_normal((size.documents, size.dimension)).astype(np.float32)
        noise = numbers.standard_normal((len(document), size.dimension), dtype=np.float32)
        return cls(document, middles[document] + np.float32(0.6) * noise)

    def queries(self, count: int, seed: int) -> np.ndarray:
        """Return queries near as many chunks."""
        numbers = np.random.default_rng(seed)
        near = self.vectors[numbers.integers(0, len(self.vectors), count)]
        return (near + 0.6 * numbers.standard_normal(near.shape)).astype(np.float32).astype(float)


def main() -> None:
    """Measure everything, print it, write it."""
    parser = parser_of(__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--files", type=int, default=8)
    given = parser.parse_args()
    documents = max(200, given.documents // 50) if given.small else given.documents
    size = Size(documents, given.dimension, given.files, 2 if given.small else 15)
    about = environment()
    folder = given.output.resolve() / "tables"
    with session_in(folder) as spark:
        bench = Bench(spark, folder, size)
        chunks = Chunks.of(size)
        table = make_table(bench, chunks)
        load = about["machine"]["load_before"]
        facts = {"rows": len(chunks.document), "load_before": load, **opened(bench, table, chunks)}
        statements(bench, table, chunks)
    print("\n" + "\n".join(f"{name:<34} {value}" for name, value in facts.items()))
    publish("grouped", given, about, {"size": size, "seconds": bench.results.seconds, "facts": facts})


def make_table(bench: Bench[Size], chunks: Chunks) -> str:
    """Write the chunks, and an index of them, by this package."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import hudi_vector as hv

    path, dimension = str(bench.folder / "grouped"), bench.size.dimension
    flat = pa.FixedSizeListArray.from_arrays(pa.array(chunks.vectors.ravel()), dimension)
    names = pa.array([f"document {number}" for number in chunks.document])
    rows = pa.table({"id": np.arange(len(chunks.document)), "doc_id": names, "embedding": flat})
    bench.folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, f"{path}.parquet")
    frame = bench.spark.read.parquet(f"{path}.parquet").repartition(bench.size.files)
    hv.write(frame, path, record_key="id", vectors={"embedding": dimension}, operation="bulk_insert")
    hv.index.create(bench.spark, path, "embedding", metric="l2")
    return path


def opened(bench: Bench[Size], table: str, chunks: Chunks) -> dict[str, Any]:
    """Time searches without Spark, and count what the usual way and an approximate search miss."""
    import hudi_vector as hv

    asked: dict[str, Any] = {"metric": "l2", "columns": ["doc_id"]}
    by_index = {**asked, "recall_target": TARGET}
    with hv.open(table, column="embedding") as t:
        t.search(chunks.vectors[0], mode="exact")  # reads the vectors

        def each(k: int, **arguments: Any) -> Way:
            queries = itertools.cycle(chunks.queries(64, 2))
            return Way(lambda: t.search(next(queries), k, **arguments))

        grouped = {"group_by": "doc_id"}
        ways = {
            ROWS_ONLY: each(K, **asked, mode="exact"),
            GROUPS: each(K, **asked, **grouped, mode="exact"),
            MORE: each(K, **asked, **grouped, per_group=ROWS, mode="exact"),
            WINDOW: each(K * TIMES, **asked, mode="exact"),
        }
        bench.compare("hv.open, exact", ways, bench.size.repeats * 3, warm=3)
        ways = {
            ROWS_ONLY: each(K, **by_index),
            GROUPS: each(K, **by_index, **grouped),
            MORE: each(K, **by_index, **grouped, per_group=ROWS),
            WINDOW: each(K * TIMES, **by_index),
        }
        bench.compare("hv.open, recall target 0.95", ways, bench.size.repeats * 3, warm=3)
        queries = chunks.queries(ASKED, 3)
        true = documents_of(t.search_batch(queries, K, **asked, **grouped, mode="exact"))
        found = documents_of(t.search_batch(queries, K, **by_index, **grouped))
        usual = documents_of(t.search_batch(queries, K * TIMES, **asked, mode="exact"))
    short = [len(true[n]) - len(set(usual[n])) for n in range(ASKED)]
    assert all(list(dict.fromkeys(usual[n]))[:K] == true[n][: len(set(usual[n]))] for n in range(ASKED))
    recall = np.mean([len(set(true[n]) & set(found[n])) / K for n in range(ASKED)])
    return {
        "queries": ASKED,
        "wrong_answers_of_the_window": sum(missing > 0 for missing in short),
        "documents_missing_in_them": sum(missing for missing in short if missing > 0),
        "recall_in_groups": round(float(recall), 4),
    }


def documents_of(hits: Any) -> list[list[str]]:
    """Return the documents of each query, in their order."""
    names, number = hits.column("doc_id").to_pylist(), hits.column("_hudi_query_index").to_numpy()
    return [[names[at] for at in np.flatnonzero(number == query)] for query in range(ASKED)]


def statements(bench: Bench[Size], table: str, chunks: Chunks) -> None:
    """Time the same through ``spark.sql``, from text to collected rows."""
    texts = ["'[" + ", ".join(f"{x:.5f}" for x in query) + "]'" for query in chunks.queries(64, 4)]

    def each(make: Callable[[str], str]) -> Way:
        queries: Iterator[str] = itertools.cycle(texts)
        return Way(lambda: bench.spark.sql(make(next(queries))).collect())

    def search(text: str, k: int, more: str = "") -> str:
        vector = f"from_json({text}, 'array<float>')"
        return f"hudi_vector_search('{table}', 'embedding', {vector}, {k}, 'l2', mode => 'exact'{more})"

    def window(text: str) -> str:
        best = "row_number() OVER (PARTITION BY doc_id ORDER BY _distance)"
        inner = f"SELECT doc_id, _distance, {best} AS place FROM {search(text, K * TIMES)}"
        return f"SELECT doc_id, _distance FROM ({inner}) WHERE place = 1 ORDER BY _distance LIMIT {K}"

    def plain(k: int, more: str = "") -> Callable[[str], str]:
        return lambda text: f"SELECT doc_id, _distance FROM {search(text, k, more)}"

    ways = {
        ROWS_ONLY: each(plain(K)),
        GROUPS: each(plain(K, ", group_by => 'doc_id'")),
        MORE: each(plain(K, f", group_by => 'doc_id', per_group => {ROWS}")),
        WINDOW: each(window),
    }
    bench.compare("spark.sql, exact", ways, bench.size.repeats, warm=3)


if __name__ == "__main__":
    main()
