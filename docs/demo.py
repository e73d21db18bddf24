"""The main job on real input: scikit-learn's handwritten digits as a Hudi table, searched by SQL.

``make demo`` runs this. Its second part stores the digits' pictures as blobs next to their vectors. It ends by writing
a picture of query digits with their neighbours, fetched from the table.
"""

from __future__ import annotations

import argparse
import io
import shutil
import time
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits

import hudi_vector as hv

NEIGHBOURS = 5
QUERIES = (7, 42, 311, 1234)


def main() -> None:
    """Make the table, search it in five ways and with Hudi's own function, draw the answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="where the table and picture go")
    output = parser.parse_args().output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    spark = _session(output)
    try:
        first_commit = _make_tables(spark, output)
        _searches(spark, first_commit)
        _make_pictures(spark, output)
        _blobs(spark)
        picture = _draw(spark, output / "neighbours.png")
    finally:
        spark.stop()
    print(f"\nThe digits and their neighbours are drawn in {picture}")


def _session(output: Path) -> SparkSession:
    config = {
        "spark.sql.warehouse.dir": str(output / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={output / 'derby'}",
        "spark.ui.enabled": False,
        "spark.sql.shuffle.partitions": 4,
    }
    return hv.session("hudi-vector demo", master="local[*]", config=config)


def _make_tables(spark: SparkSession, output: Path) -> str:
    """Write the digits, change some, and give the instant of the first commit."""
    pixels, labels = load_digits(return_X_y=True)
    half = np.where(np.arange(len(labels)) % 2 == 0, "even", "odd")
    rows = [
        (int(i), int(label), str(part), [float(x) for x in image])
        for i, (label, part, image) in enumerate(zip(labels, half, pixels, strict=True))
    ]
    digits = spark.createDataFrame(rows, "id INT, label INT, part STRING, embedding ARRAY<FLOAT>")
    written = hv.write(
        digits,
        str(output / "digits"),
        record_key="id",
        partition_by="part",
        table_type="mor",
        operation="bulk_insert",
        vectors={"embedding": 64},
    )
    spark.sql(f"CREATE TABLE digits USING hudi LOCATION '{output / 'digits'}'")
    spark.sql("CREATE TEMPORARY VIEW names AS SELECT id AS label, concat('the digit ', id) AS name FROM range(10)")
    queries = [(n, [float(x) for x in pixels[i]]) for n, i in enumerate(QUERIES)]
    hv.write(
        spark.createDataFrame(queries, "number INT, image ARRAY<FLOAT>"),
        str(output / "asked"),
        record_key="number",
        operation="bulk_insert",
        vectors={"image": 64},
    )
    spark.sql(f"CREATE TABLE asked USING hudi LOCATION '{output / 'asked'}'")
    print(f"{digits.count()} digits of 64 dimensions in a merge-on-read table of two partitions;")
    spark.sql("UPDATE digits SET label = 99 WHERE id = 7")
    spark.sql("DELETE FROM digits WHERE id IN (42, 311)")
    print("one digit was given the label 99 and two were deleted, in log files.")
    return written.instant


def _searches(spark: SparkSession, first_commit: str) -> None:
    pixels = load_digits().data
    vector = "ARRAY(" + ", ".join(f"{x:.0f}.0" for x in pixels[QUERIES[0]]) + ")"
    single = f"hudi_vector_search('digits', 'embedding', {vector}, {NEIGHBOURS})"
    native = f"hudi_vector_search_native('digits', 'embedding', {vector}, {NEIGHBOURS})"
    _show(
        spark,
        f"Single search: the {NEIGHBOURS} digits nearest to digit {QUERIES[0]}",
        f"SELECT id, label, part, round(_distance, 6) AS distance FROM {single}",
        f"SELECT id, label, part, round(_hudi_distance, 6) AS distance FROM {native}",
    )
    filtered = (
        f"hudi_vector_search('digits', 'embedding', {vector}, {NEIGHBOURS}, filter => 'label <> 7 AND part = \"odd\"')"
    )
    _show(
        spark,
        "With a filter before the distances: odd rows that are no sevens",
        f"SELECT id, label, part, round(_distance, 6) AS distance FROM {filtered}",
        "SELECT id, label, part, round(_hudi_distance, 6) AS distance FROM hudi_vector_search_native('digits', "
        f"'embedding', {vector}, 1800) WHERE label <> 7 AND part = 'odd' ORDER BY distance LIMIT {NEIGHBOURS}",
    )
    _show(
        spark,
        "Joined with another table",
        f"SELECT s.id, n.name, round(s._distance, 6) AS distance FROM {single} s JOIN names n ON s.label = n.label "
        "ORDER BY s._distance",
        f"SELECT s.id, n.name, round(s._hudi_distance, 6) AS distance FROM {native} s JOIN names n "
        "ON s.label = n.label ORDER BY s._hudi_distance",
    )
    _show(
        spark,
        "Batch: the two nearest of every digit of the table 'asked', by Euclidean distance",
        "SELECT number, _rank, id, label, round(_distance, 4) AS distance FROM "
        "hudi_vector_search_batch('digits', 'embedding', 'asked', 'image', 2, 'l2') ORDER BY number, _rank",
        "SELECT number, CAST(row_number() OVER (PARTITION BY number ORDER BY _hudi_distance) AS INT) AS _rank, id, "
        "label, round(_hudi_distance, 4) AS distance FROM "
        "hudi_vector_search_batch_native('digits', 'embedding', 'asked', 'image', 2, 'l2') ORDER BY number, _rank",
    )
    _show(
        spark,
        f"As of the first commit ({first_commit}): before the update and the deletes",
        f"SELECT id, label, part, round(_distance, 6) AS distance FROM hudi_vector_search(table => 'digits', "
        f"embedding_col => 'embedding', query_vector => {vector}, k => {NEIGHBOURS}, as_of => '{first_commit}')",
        None,
    )
    print("The last search reported:\n" + str(hv.last_reports(1)[0]))


def _show(spark: SparkSession, title: str, ours: str, native: str | None) -> None:
    print(f"\n== {title}")
    print("   " + _shortened(ours))
    found, said = _timed(spark, ours)
    print(found)
    print(f"   hudi-vector: {said}")
    if native is None:
        print("   Hudi's own function has no time travel argument.")
        return
    answer, native_said = _timed(spark, native)
    if answer == found:
        print(f"   Hudi's own function: {native_said}; the same answer")
    else:
        print(f"   Hudi's own function: {native_said}; it answers\n{answer}")


def _timed(spark: SparkSession, sql: str) -> tuple[str, str]:
    """The rows as a printed table, and how long the statement took the second time and the first one."""
    seconds = []
    for _ in range(2):  # the first time, classes are loaded and code is made
        begun = time.perf_counter()
        frame = spark.sql(sql)
        rows = frame.collect()
        seconds.append(time.perf_counter() - begun)
    lines = [frame.columns, *[[str(value) for value in row] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(frame.columns))]
    return "\n".join(
        "   | " + " | ".join(v.ljust(w) for v, w in zip(line, widths, strict=True)) + " |" for line in lines
    ), f"{seconds[1] * 1000:.0f} ms, the first time {seconds[0] * 1000:.0f}"


def _shortened(sql: str) -> str:
    start, end = sql.find("ARRAY("), sql.find(")", sql.find("ARRAY("))
    return sql if start < 0 else sql[: start + 6] + "…" + sql[end:]


def _make_pictures(spark: SparkSession, output: Path) -> None:
    """Write the digits once more, each with its picture as a blob."""
    digits = load_digits()
    rows = [
        (i, int(label), [float(x) for x in pixels], bytearray(_png(image)))
        for i, (label, pixels, image) in enumerate(zip(digits.target, digits.data, digits.images, strict=True))
    ]
    begun = time.perf_counter()
    written = hv.write(
        spark.createDataFrame(rows, "id INT, label INT, embedding ARRAY<FLOAT>, picture BINARY"),
        str(output / "pictures"),
        record_key="id",
        operation="bulk_insert",
        vectors={"embedding": 64},
        # Small pictures would stay in their rows; these go to containers, as large ones do.
        blobs={"picture": {"inline.threshold": "0"}},
    )
    spark.sql(f"CREATE TABLE pictures USING hudi LOCATION '{output / 'pictures'}'")
    blobs = written.blobs
    assert blobs is not None
    print(
        f"\n{blobs.blobs} pictures ({blobs.bytes} bytes) were written to {blobs.containers} containers of the table "
        f"in {time.perf_counter() - begun:.1f} s."
    )


def _png(image: np.ndarray) -> bytes:
    from matplotlib.image import imsave

    file = io.BytesIO()
    imsave(file, np.kron(image, np.ones((4, 4))), cmap="gray_r", format="png")
    return file.getvalue()


def _blobs(spark: SparkSession) -> None:
    _show(
        spark,
        "Blobs: the size and place of some pictures, read late",
        "SELECT id, label, length(read_blob(picture)) AS bytes, hex(read_blob(picture, 1, 3)) AS begins FROM "
        "(SELECT * FROM pictures ORDER BY id LIMIT 4)",
        "SELECT id, label, length(bytes) AS bytes, hex(substring(bytes, 2, 3)) AS begins FROM "
        "(SELECT id, label, read_blob_native(picture) AS bytes FROM pictures WHERE id < 4) ORDER BY id",
    )


def _draw(spark: SparkSession, path: Path) -> Path:
    """Draw the neighbours from their pictures in the table: of all pictures only these are read."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.image import imread

    images = load_digits().images
    found = hv.search_batch(spark, "pictures", "embedding", "asked", "image", NEIGHBOURS, metric="l2")
    rows = hv.read_blobs(found, "picture").select("number", "_rank", "id", "label", "_distance", "picture").collect()
    figure, axes = plt.subplots(len(QUERIES), NEIGHBOURS + 1, figsize=(1.4 * (NEIGHBOURS + 1), 1.7 * len(QUERIES)))
    for number, query in enumerate(QUERIES):
        _digit(axes[number][0], images[query], f"query {query}")
    for row in rows:
        picture = imread(io.BytesIO(bytes(row["picture"])))
        _digit(axes[row["number"]][row["_rank"]], picture, f"{row['label']}: {row['_distance']:.1f}")
    figure.suptitle("Query digits and their nearest rows (label: distance)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return path


def _digit(axis: object, image: np.ndarray, title: str) -> None:
    axis.imshow(image, cmap="gray_r")
    axis.set_title(title, fontsize=8)
    axis.set_axis_off()


if __name__ == "__main__":
    main()
