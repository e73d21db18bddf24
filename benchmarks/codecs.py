"""Which codec should a table with vectors have? Bytes, seconds to write, seconds to read, for each that Hudi offers.

    python benchmarks/codecs.py [--scale 1.0] [--repeats 5] [--small]

Hudi itself writes the tables (bulk insert, one file for each of two tasks, rows cached beforehand); pyarrow reads
the vector column alone, warm, on all threads. Random normal vectors stand for embeddings, which do not compress; the
digits of scikit-learn, repeated, stand for vectors with real redundancy. Codecs take turns; seconds are medians.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import Way, environment, in_turns, parser_of, publish, spread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import hudi_vector as hv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODECS = ("uncompressed", "snappy", "zstd", "gzip")


@dataclass(frozen=True)
class Row:
    """One line of the answer."""

    data: str
    codec: str
    megabytes: float
    ratio: float
    write_seconds: dict[str, float]
    read_seconds: dict[str, float]


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    scale, repeats = (0.01, 1) if given.small else (given.scale, given.repeats)
    about, spark = environment(), session()
    sets = (
        ("random 128", int(200_000 * scale), 128, random_rows),
        ("random 768", int(50_000 * scale), 768, random_rows),
        ("digits 64", int(200_000 * scale), 64, digit_rows),
    )
    print(f"{'data':12} {'rows':>8} {'codec':14} {'MB':>8} {'of raw':>7} {'write s':>8} {'read s':>8}")
    found = []
    for name, rows, dimension, make in sets:
        frame = vectors(spark, rows, dimension, make).cache()
        frame.write.format("noop").mode("overwrite").save()
        for row in measured(frame, name, rows * dimension * 4, repeats):
            found.append(row)
            print(
                f"{row.data:12} {rows:8} {row.codec:14} {row.megabytes:8.1f} {row.ratio:7.2f} "
                f"{row.write_seconds['median']:8.2f} {row.read_seconds['median']:8.3f}",
                flush=True,
            )
        frame.unpersist()
    spark.stop()
    publish("codecs", given, about, {"rows": [asdict(row) for row in found]})


def session() -> SparkSession:
    """A local session of two tasks with Hudi."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
    )
    spark = hv.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def random_rows(first: int, count: int, dimension: int) -> np.ndarray:
    """Normally distributed elements."""
    return np.random.default_rng(first).standard_normal((count, dimension), dtype=np.float32)


def digit_rows(first: int, count: int, dimension: int) -> np.ndarray:
    """Handwritten digits, over and over."""
    from sklearn.datasets import load_digits

    images = load_digits().data.astype(np.float32)
    assert images.shape[1] == dimension
    return images[(first + np.arange(count)) % len(images)]


def vectors(spark: SparkSession, rows: int, dimension: int, make: Callable[[int, int, int], np.ndarray]) -> DataFrame:
    """A table of keys and vectors, in two partitions."""
    schema = StructType([StructField("id", LongType()), hv.vector_field("emb", dimension)])

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = make(batch.column(0)[0].as_py(), batch.num_rows, dimension).reshape(-1)
            offsets = pa.array(np.arange(batch.num_rows + 1, dtype=np.int32) * dimension)
            arrays = [batch.column(0), pa.ListArray.from_arrays(offsets, pa.array(values))]
            yield pa.RecordBatch.from_arrays(arrays, names=["id", "emb"])

    return spark.range(0, rows, 1, 2).mapInArrow(fill, schema)


def measured(frame: DataFrame, name: str, raw_bytes: int, repeats: int) -> list[Row]:
    """Write the tables of all codecs in turns, and read them in turns."""
    files: dict[str, list[str]] = {}
    folders: list[str] = []

    def writing(codec: str) -> Way:
        def run() -> None:
            files[codec], folder = write(frame, codec)
            folders.append(folder)

        return Way(run)

    def reading(codec: str) -> Way:
        def run() -> None:
            for file in files[codec]:
                pq.ParquetFile(file, memory_map=True).read(columns=["emb"])

        return Way(run)

    written = in_turns({codec: writing(codec) for codec in CODECS}, repeats)
    read = in_turns({codec: reading(codec) for codec in CODECS}, 3 * repeats)
    sizes = {codec: sum(os.path.getsize(file) for file in files[codec]) for codec in CODECS}
    for folder in folders:
        shutil.rmtree(folder)
    return [
        Row(name, codec, size / 1e6, size / raw_bytes, spread(written[codec]), spread(read[codec]))
        for codec, size in sizes.items()
    ]


def write(frame: DataFrame, codec: str) -> tuple[list[str], str]:
    """Let Hudi write a table, and find its files."""
    folder = tempfile.mkdtemp(prefix="codecs-")
    options = {
        "hoodie.table.name": "codecs",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.parquet.compression.codec": codec,
    }
    frame.write.format("hudi").options(**options).mode("append").save(folder + "/t")
    files = glob.glob(folder + "/t/*.parquet")
    for file in files:
        column = pq.ParquetFile(file).metadata.row_group(0).column(6)
        assert column.path_in_schema == "emb", column.path_in_schema
        assert column.compression == codec.upper(), f"{column.compression} in place of {codec.upper()}"
        assert not column.has_dictionary_page, "the vectors have a dictionary"
    return files, folder


if __name__ == "__main__":
    main()
