"""What does clustering by vectors buy? Pages and bytes that a query reads by an index, before and after, in one run.

    python benchmarks/clustering.py [--vectors 1000000] [--partitions 1 8] [--codec snappy] [--queries 100]
        [--output bench-output] [--small]

Vectors are the clusters of `index_data.py`, 128 elements each, in random order. Each table is searched by its `ivf_sq8`
index, clustered by `hv.table_services.cluster(order_by="emb")`, indexed again, and asked the same queries. Searches
keep nothing in memory. Pages are those of base files that hold a vector which a query compares; their bytes are what is
read of a store that is asked for whole pages. "Read here" are the bytes that were read of the local disk, where a
page without compressed bytes gives single vectors.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from common import environment, parser_of, publish, session, spread
from index_data import Case, K, Space, nearest, write_table

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import SparkSession

_DIMENSION = 128
_KIND = "ivf_sq8"
_SEARCHES = (("exact", {}), ("recall target 0.95", {"recall_target": 0.95}))
_NO_CACHE = {"hoodie.vector.cache.max.bytes": "0"}


@dataclass(frozen=True)
class Row:
    """What searches of one table read for each query, before or after its clustering."""

    partitions: int
    search: str
    when: str
    recall: float
    pages: dict[str, float]
    page_bytes: dict[str, float]
    read_bytes: dict[str, float]


@dataclass
class Touched:
    """The pages of vectors that a search touched, each with its bytes."""

    pages: dict[tuple[str, int], int] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget them, before another search."""
        self.pages.clear()


def main() -> None:
    """Measure, print, write."""
    parser = parser_of(__doc__)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--codec", default="snappy")
    parser.add_argument("--queries", type=int, default=100)
    given = parser.parse_args()
    if given.small:
        given.vectors, given.partitions, given.queries = 4_000, [1, 2], 10
    about, output = environment(), given.output.resolve()
    spark = session(output)
    rows: list[Row] = []
    seconds: dict[str, dict[str, float]] = {}
    try:
        for partitions in given.partitions:
            case = Case("clustering", given.vectors, _DIMENSION, partitions, given.codec, given.queries, output)
            found, took = measured(spark, case)
            rows += found
            seconds[str(partitions)] = took
    finally:
        spark.stop()
    content = {"vectors": given.vectors, "dimension": _DIMENSION, "codec": given.codec, "queries": given.queries}
    publish("clustering", given, about, {**content, "seconds": seconds, "rows": [asdict(row) for row in rows]})


def measured(spark: SparkSession, case: Case) -> tuple[list[Row], dict[str, float]]:
    """The rows of one table before and after, and the seconds of the clustering and of both indexes."""
    import hudi_vector as hv

    prepare(case)
    write_table(spark, case)
    seconds = {"index": hv.index.create(spark, case.table, "emb", metric="l2", kind=_KIND).seconds}
    rows = searched(case, "before")
    begun = time.perf_counter()
    options = {"hoodie.metadata.enable": "false", "hoodie.parquet.compression.codec": case.codec}
    hv.table_services.cluster(spark, case.table, order_by="emb", assume_single_writer=True, options=options)
    seconds["cluster"] = time.perf_counter() - begun
    seconds["index again"] = hv.index.refresh(spark, case.table, "emb", kind=_KIND).seconds
    print(
        f"  {case.files} partitions  " + "  ".join(f"{name} {took:.1f} s" for name, took in seconds.items()), flush=True
    )
    rows += searched(case, "after")
    shutil.rmtree(case.folder)
    return rows, seconds


def prepare(case: Case) -> None:
    """Draw the vectors and the queries, and find the true neighbours, in a new folder."""
    shutil.rmtree(case.folder, ignore_errors=True)
    case.folder.mkdir(parents=True)
    space = Space.of(case.dimension)
    rows, asked = space.draw(case.vectors, 100), space.draw(case.queries, 7)
    np.save(case.folder / "rows.npy", rows)
    np.save(case.folder / "batch.npy", asked)
    np.save(case.folder / "batch_truth.npy", nearest(rows, asked))


def searched(case: Case, when: str) -> list[Row]:
    """What each kind of search reads and finds."""
    import hudi_vector as hv

    rows = []
    with hv.open(case.table, column="emb", options=_NO_CACHE) as table, counted() as touched:
        for search, asked in _SEARCHES:
            pages, page_bytes, read_bytes, shares = [], [], [], []
            for query, true in zip(case.asked(), case.truth().tolist(), strict=True):
                touched.clear()
                found = table.search(query, K, metric="l2", columns=["id"], algorithm=_KIND, **asked)
                pages.append(float(len(touched.pages)))
                page_bytes.append(float(sum(touched.pages.values())))
                read_bytes.append(float(hv.last_reports()[0].bytes_read))
                shares.append(len(set(true).intersection(found.column("id").to_pylist())) / K)
            row = Row(
                case.files, search, when, float(np.mean(shares)), spread(pages), spread(page_bytes), spread(read_bytes)
            )
            print(
                f"  {case.files} partitions  {search:<20} {when:<7} recall {row.recall:.3f}  pages {row.pages}",
                flush=True,
            )
            rows.append(row)
    return rows


@contextmanager
def counted() -> Iterator[Touched]:
    """Note each page of vectors of which rows are read, while the block runs."""
    from hudi_vector.read.parquet.vector_pages import VectorPages

    touched, rows_of, stored_of = Touched(), VectorPages.rows, VectorPages.stored

    def noting(read: Any) -> Any:
        def noted(pages: Any, rows: npt.NDArray[np.int64]) -> Any:
            places = pages._paged.places
            for number in np.unique(np.searchsorted(places.first_row, rows, side="right") - 1).tolist():
                begin, end = int(places.begin[number]), int(places.end[number])
                touched.pages[pages._file.file.uri, begin] = end - begin
            return read(pages, rows)

        return noted

    VectorPages.rows, VectorPages.stored = noting(rows_of), noting(stored_of)  # type: ignore[method-assign]
    try:
        yield touched
    finally:
        VectorPages.rows, VectorPages.stored = rows_of, stored_of  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
