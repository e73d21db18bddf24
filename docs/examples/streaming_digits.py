"""A stream of handwritten digits, classified by their neighbours while new labelled digits are being committed.

    python docs/examples/streaming_digits.py --output streaming-output

The table begins with 10 labelled digits. In each round more are committed, and a stream brings digits without labels.
Each of them gets its five nearest rows as the table is then, and the label that most of them have. The query is started
once and never again. A chart shows how often the label is right, and how many digits the table had.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sklearn.datasets import load_digits

import hudi_vector as hv

ROUNDS, LABELLED, ASKED, NEIGHBOURS = 12, 60, 50, 5


def main() -> None:
    """Run the stream and draw the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("streaming-output"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.output, ignore_errors=True)
    spark = session(arguments.output.resolve())
    try:
        rounds = classify(spark, arguments.output.resolve(), arguments.rounds)
    finally:
        spark.stop()
    for row in rounds:
        print(f"{row['labelled']:5d} labelled digits   {row['right']:6.1%} of {row['asked']} digits right")
    print(f"chart: {draw(rounds, arguments.output / 'accuracy.png')}")


def session(output: Path) -> SparkSession:
    """A local session."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("streaming digits")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(output / "warehouse"))
        .config("spark.log.level", "ERROR")
    )
    return hv.register(hv.configure(builder).getOrCreate())


def classify(spark: SparkSession, output: Path, rounds: int) -> list[dict[str, Any]]:
    """For each state of the table: how many digits it had, how many asked, and the share that got the right label."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(labels))
    table, events = str(output / "digits"), output / "events"
    events.mkdir(parents=True)

    def commit(chosen: np.ndarray) -> None:
        rows = [(int(i), int(labels[i]), [float(x) for x in pixels[i]]) for i in chosen]
        frame = spark.createDataFrame(rows, "id INT, label INT, embedding ARRAY<FLOAT>")
        hv.write(frame, table, record_key="id", vectors={"embedding": 64}, options={"hoodie.metadata.enable": "false"})

    def send(number: int, chosen: np.ndarray) -> None:
        rows = pa.table(
            {"digit": pa.array(chosen, pa.int32()), "features": pa.array(list(pixels[chosen]), pa.list_(pa.float32()))}
        )
        pq.write_table(rows, events / f".{number}")
        (events / f".{number}").rename(events / f"{number:04d}.parquet")

    commit(order[:10])
    stream = spark.readStream.schema("digit INT, features ARRAY<FLOAT>").parquet(str(events))
    config = {"snapshot-column": "seen", "refresh-interval": "0"}
    near = hv.vector_search(stream, table, "embedding", "features", NEIGHBOURS, columns=["label"], config=config)
    query = near.writeStream.format("memory").queryName("near").start()
    known, labelled = 10, {}
    for number in range(rounds):
        labelled[number] = known
        asked = order[-(number + 1) * ASKED :][:ASKED]
        send(number, asked)
        query.processAllAvailable()
        commit(order[known : known + LABELLED])
        known += LABELLED
    query.stop()
    counted = (F.count("*").alias("votes"), F.min("_rank").alias("r"))
    votes = spark.table("near").groupBy("seen", "digit", "label").agg(*counted)
    found: dict[str, dict[int, tuple[int, int, int]]] = {}
    for row in votes.collect():
        best = found.setdefault(row["seen"], {}).get(row["digit"], (0, 0, 0))
        found[row["seen"]][row["digit"]] = max(best, (row["votes"], -row["r"], row["label"]))
    return [
        {
            "labelled": labelled[number],
            "asked": len(digits),
            "right": float(np.mean([label == labels[digit] for digit, (_, _, label) in digits.items()])),
        }
        for number, (_, digits) in enumerate(sorted(found.items()))
    ]


def draw(rounds: list[dict[str, Any]], path: Path) -> Path:
    """Accuracy over time, and the digits in the table."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, right = plt.subplots(figsize=(7, 4))
    steps = range(1, len(rounds) + 1)
    table = right.twinx()
    table.bar(steps, [row["labelled"] for row in rounds], color="0.88", zorder=0)
    table.set_ylabel("labelled digits in the table")
    right.plot(steps, [100 * row["right"] for row in rounds], marker="o", zorder=3)
    right.set_zorder(table.get_zorder() + 1)
    right.patch.set_visible(False)
    right.set_xlabel("micro-batch")
    right.set_ylabel("digits with the right label, %")
    right.set_ylim(0, 102)
    right.set_title(f"Digits of a stream, classified by their {NEIGHBOURS} nearest rows")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return path


if __name__ == "__main__":
    main()
