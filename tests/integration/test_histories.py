"""Random histories of a table: after them the search equals the oracle at every instant still retained.

At random moments an index is made, brought up to date, made anew, or cleared of what it no longer needs.

A real Hudi commit takes seconds, so there are few histories and they are long; ``make soak`` runs more.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from support import oracle, tables
from support.quick import quick_statements

import hudi_vector as hv
from hudi_vector.errors import InstantNotAvailableError
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

STEPS = 9
INDEX_SHARE = 0.4
QUERY = tables.vectors(1, 123)[0].astype(float)


@dataclass
class History:
    """A table and what was done to it, so that a failure can be told."""

    spark: object
    path: str
    kind: str
    seed: int
    done: list[str] = field(default_factory=list)
    by_index: int = 0

    def __post_init__(self) -> None:
        self.numbers = random.Random(self.seed)
        self.moments = random.Random(self.seed * 1000 + 14)
        self.has_metadata = str(self.seed % 2 == 0).lower()

    def options(self, **more):
        return {
            "datasource__write__table__type": self.kind,
            "datasource__write__partitionpath__field": "category",
            "datasource__write__precombine__field": "price",
            "compact__inline": "false",
            "metadata__enable": self.has_metadata,
            **more,
        }

    def rows(self, count):
        ids = self.numbers.sample(range(60), count)
        return tables.frame(self.spark, ids, seed=self.numbers.randrange(1 << 30))

    def upsert(self):
        tables.write(self.rows(self.numbers.randint(3, 25)), self.path, **self.options())

    def delete(self):
        tables.write(
            self.rows(self.numbers.randint(2, 10)), self.path, **self.options(datasource__write__operation="delete")
        )

    def overwrite(self):
        part = self.rows(6).filter("category = 'c1'")
        tables.write(part, self.path, **self.options(datasource__write__operation="insert_overwrite"))

    def cluster(self):
        self.spark.sql(
            f"CALL run_clustering(path => '{self.path}', op => 'scheduleAndExecute', order => 'price')"
        ).collect()

    def compact(self):
        self.spark.sql(
            f"CALL run_compaction(op => 'scheduleAndExecute', path => '{self.path}', "
            "options => 'hoodie.compact.inline.max.delta.commits=1')"
        ).collect()

    def roll_back(self):
        if len(self.timeline().commits) < 2:
            self.upsert()  # without a commit a table has no schema, and Hudi refuses to delete from it
            return
        newest = self.timeline().commits[-1]
        name = tables.fresh_name("rolled")
        self.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{self.path}'")
        self.spark.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{newest.requested}')").collect()
        if newest.requested in self.timeline().pending:  # of a clustering Hudi keeps the plan, and refuses updates
            self.spark.sql(f"CALL run_clustering(path => '{self.path}', op => 'execute')").collect()

    def look_after_the_index(self):
        job = self.moments.choice(["build_if_missing", "build_if_missing", "create", "compact"])
        self.done.append(f"index {job}")
        if job == "compact":
            if hv.index.describe(self.spark, self.path):
                hv.index.compact(self.spark, self.path, "emb", grace="0s")
            return
        kind = {"num_partitions": self.moments.randint(1, 9)} if job == "create" else {}
        getattr(hv.index, job)(self.spark, self.path, "emb", metric="l2", **kind)

    def timeline(self):
        return NativeTable(Source(f"file://{self.path}", "t")).timeline()

    def run(self):
        self.upsert()
        steps = [self.upsert, self.upsert, self.delete, self.overwrite, self.cluster, self.roll_back]
        steps += [self.compact] if self.kind == "MERGE_ON_READ" else []
        for _ in range(STEPS):
            step = self.numbers.choice(steps)
            self.done.append(step.__name__)
            step()
            if self.moments.random() < INDEX_SHARE:
                self.look_after_the_index()


def check(history, as_of, frame):
    expected = oracle.nearest(frame, "emb", QUERY, 12, "l2")
    # Vectors in memory answer in place of the index on the driver; tasks keep none.
    for execution in ("local", "distributed"):
        found = hv.search(history.spark, history.path, "emb", QUERY, 12, metric="l2", as_of=as_of, execution=execution)
        oracle.assert_nearest(found, expected)
    history.by_index += hv.last_reports()[0].slices.get("index", 0)


def run_history(spark, workspace, kind, seed):
    history = History(spark, str(tables.fresh_path(workspace, "history")), kind, seed)
    try:
        with quick_statements(spark, metadata__enable=history.has_metadata):
            history.run()
        check(history, None, spark.read.format("hudi").load(history.path))
        for commit in history.timeline().commits:
            frame = spark.read.format("hudi").option("as.of.instant", commit.requested).load(history.path)
            try:
                check(history, commit.requested, frame)
            except InstantNotAvailableError:
                with pytest.raises(Exception, match="clean"):
                    frame.collect()
    except Exception as wrong:
        raise AssertionError(f"seed {seed}, {kind}: {', '.join(history.done)}\n{wrong}") from wrong
    return history


@pytest.mark.parametrize(
    ("kind", "seed"), [pytest.param("COPY_ON_WRITE", 12, marks=pytest.mark.hudi_defaults), ("MERGE_ON_READ", 4)]
)
def test_a_history(spark, workspace, kind, seed):
    assert run_history(spark, workspace, kind, seed).by_index


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_histories(spark, workspace, kind, seed):
    run_history(spark, workspace, kind, seed)
