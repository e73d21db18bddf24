"""Commands that only list, read, move and remove files: no Spark starts for them, so that they need no Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import servers
from support.blob_states import DAY, BlobTable, blob, write_id
from support.commands import unread
from support.written_table import Row, WrittenTable

import hudi_vector as hv
from hudi_vector.command.main import main
from hudi_vector.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    TableNotFoundError,
    UnknownColumnError,
)
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.index.locations import in_directory
from hudi_vector.options import Settings
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.environment import settings_here

ROOT = Path(hv.__file__).parents[1]
Ran = Callable[..., list[tuple[int, list[dict[str, Any]]]]]

_RUN = """
import json, os, sys
from hudi_vector.command.main import main

for line in sys.stdin:
    folder, more, commands = json.loads(line)
    os.chdir(folder)
    os.environ.update(more)
    for arguments in commands:
        print("code", main(arguments), flush=True)
        assert not {"pyspark", "py4j", "pandas"} & sys.modules.keys(), arguments
    for name in more:
        del os.environ[name]
    print("end", flush=True)
import pyarrow as pa
assert pa.table({"a": [1]}).to_pandas().shape == (1, 1)  # pandas is there where it is asked for
"""


def without_java(tmp_path: Path, more: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that finds no Java, and no settings but those that `more` names."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "SPARK", "PYSPARK", "HADOOP"))
    }
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "PATH": str(tmp_path / "bin"),
        "JAVA_HOME": str(tmp_path / "none"),
        **more,
    }


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A process that finds no Java, and runs commands of these tests: to load the package takes longer than they do."""
    folder = tmp_path_factory.mktemp("process")
    command, pipe = [sys.executable, "-c", _RUN], subprocess.PIPE
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            command, env=without_java(folder, {}), stdin=pipe, stdout=pipe, stderr=errors, text=True
        ) as ran,
    ):
        yield ran
        assert ran.stdin is not None
        ran.stdin.close()
        assert ran.wait(120) == 0, (folder / "errors").read_text()


@pytest.fixture
def ran(process: subprocess.Popen[str], tmp_path: Path) -> Ran:
    """The exit code and the rows of each command, run in the test's folder with more variables."""

    def run(*commands: list[str], **more: str) -> list[tuple[int, list[dict[str, Any]]]]:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = [str(tmp_path), more, [[*words, "--format", "json"] for words in commands]]
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        found, rows = [], []
        for line in iter(process.stdout.readline, "end\n"):
            assert line, f"the process has ended: {process.wait(120)}"
            if line.startswith("code "):
                found.append((int(line.removeprefix("code ")), rows))
                rows = []
            else:
                rows.append(json.loads(line))
        return found

    return run


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """A table with an index, whose second file came after it."""
    made = WrittenTable(tmp_path / "vectors")
    chance = np.random.default_rng(1)

    def rows(first: int) -> list[Row]:
        return [Row(first + i, "a", 1.0, "n", tuple(chance.normal(size=4).tolist())) for i in range(60)]

    made.commit({("a", "f1"): rows(0)})
    snapshot = NativeTable(Source(f"file://{made.path}", "t")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, made.element))
    create_index(snapshot, spec, Parameters(metric="l2"))
    made.commit({("a", "f2"): rows(100)})
    return made.path


def test_indexes_are_looked_after_without_spark(ran: Ran, vectors: Path) -> None:
    def index(command: str, *more: str) -> list[str]:
        return ["index", command, "--table", str(vectors), *more]

    column = ("--column", "emb")
    described, narrowed, verified, compacted, dropped, none = ran(
        index("describe"),
        index("describe", "--column", "EMB"),
        index("verify", *column),
        index("compact", *column),
        index("drop", *column),
        index("describe"),
    )
    assert described == narrowed
    code, (row,) = described
    assert (code, row["column"], row["metric"], row["covered_files"], row["files"]) == (0, "emb", "l2", 1, 2)
    assert (row["segments"], row["covered_rows"]) == (1, 60)
    assert (verified, compacted) == ((0, []), (0, []))
    assert dropped == described
    assert none == (0, [])
    assert not list(vectors.glob(".hoodie/vector_index/v1/emb/l2-ivf_sq8/segments/*"))


def test_indexes_are_made_and_measured_without_spark(ran: Ran, vectors: Path) -> None:
    def index(command: str, *more: str) -> list[str]:
        return ["index", command, str(vectors), "--column", "emb", *more]

    refreshed, made, known, measured, short = ran(
        index("refresh", "--metric", "l2"),
        index("create", "--metric", "cosine", "--kind", "ivf_flat", "--num-partitions", "4"),
        index("build-if-missing", "--metric", "cosine"),
        index("recall", "--metric", "cosine", "--sample", "9"),
        index("recall", "--metric", "cosine", "--at-least", "1.1"),
    )
    codes = [code for code, _ in (refreshed, made, known, measured, short)]
    assert codes == [0, 0, 0, 0, 1]
    assert (refreshed[1][0]["segments_made"], refreshed[1][0]["covered_rows"]) == (1, 120)
    assert [(rows[0]["kind"], rows[0]["segments_made"]) for _, rows in (made, known)] == [
        ("ivf_flat", 2),
        ("ivf_flat", 0),
    ]
    assert measured[1][0]["recall"] > 0.5
    with hv.open(str(vectors), column="emb") as opened:
        hits = opened.search([1.0, 0, 0, 0], 9, columns=["id"])
        assert hits.report.slices == {"index": 2}
        assert hits.table == opened.search([1.0, 0, 0, 0], 9, columns=["id"], mode="exact").table
    with pytest.raises(InvalidTypeError, match="a search needs a VECTOR"):
        hv.index.create(None, str(vectors), "price")


def test_vectors_are_found_and_columns_compared_without_spark(ran: Ran, vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("[1, 0, 0, 0]")
    np.save(tmp_path / "two.npy", np.eye(2, 4))
    (tmp_path / "labels.json").write_text('[["no such key"], []]')
    compare = ["vectors", "compare", str(vectors), "--old", "emb", "--new", "emb", "-k", "3", "--metric", "l2"]
    found, one, two = ran(
        ["vectors", "find", str(vectors), "--column", "emb"],
        [*compare, "--old-queries", "one.json", "--new-queries", "one.json"],
        [*compare, "--old-queries", "two.npy", "--new-queries", "two.npy", "--labels", "labels.json"],
    )
    files = {str(file.relative_to(vectors)): file.stat().st_size for file in vectors.glob("a/*.parquet")}
    assert (found[0], {row["path"]: row["bytes"] for row in found[1]}) == (0, files)
    assert (one[0], [row["overlap"] for row in one[1]]) == (0, [1.0])
    assert (two[0], [(row["overlap"], row["new_recall"]) for row in two[1]]) == (0, [(1.0, 0.0), (1.0, None)])
    assert hv.vectors.find_vectors(Settings(), vectors, "no_such_column") == []


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (5, "labels is a list with a list of keys for each question"),
        ([5], "labels is a list with a list of keys for each question"),
        ([[["a"]]], "a label is a list or a mapping, which is no key; give texts or numbers"),
        ([["a", {"a": 1}]], "a label is a list or a mapping, which is no key; give texts or numbers"),
    ],
)
def test_labels_are_lists_of_keys(labels: Any, sentence: str) -> None:
    asked: dict[str, Any] = {"old_queries": [[1.0, 0, 0, 0]], "new_queries": [[1.0, 0, 0, 0]]}
    with pytest.raises(InvalidTypeError, match=sentence):
        hv.vectors.compare(None, "/no/such", "emb", "emb", **asked, labels=labels)


def test_a_damaged_index_is_found_without_spark(ran: Ran, vectors: Path) -> None:
    (segment,) = vectors.glob(".hoodie/vector_index/v1/emb/l2-ivf_sq8/segments/*")
    segment.write_bytes(segment.read_bytes()[:-9])
    ((code, (row,)),) = ran(["index", "verify", "--table", str(vectors), "--column", "emb"])
    assert (code, row["segment"]) == (1, segment.name)


def test_columns_of_the_table_are_completed(vectors: Path) -> None:
    def completed(last: str) -> list[str]:
        words = ["hudi-vector", "search", str(vectors), "--columns", last]
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_HUDI_VECTOR_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": "4",
        }
        command = [sys.executable, "-m", "hudi_vector"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("") == ["id", "name", "price", "grp", "emb"]
    assert completed("id,pr") == ["id,price"]


def test_blobs_are_listed_and_tables_registered_without_spark(ran: Ran, table: BlobTable, tmp_path: Path) -> None:
    other = BlobTable(tmp_path.resolve() / "other", table.clock_ms)
    path = table.container(write_id(table.clock_ms, 1))
    instant = table.instant()
    table.base("f1", instant, {1: blob(path, 0, 3), 2: blob(path, 1, 4)})
    table.complete(instant, "commit")
    given, both = ["--table", str(table.path)], ["--with", str(other.path)]
    listed, entered, registered, left = ran(
        ["list-containers", *given],
        ["register-tables", *given, *both],
        ["registered-tables", *given],
        ["unregister-tables", *given, *both],
    )
    code, (row,) = listed
    assert (code, row["path"], row["live_bytes"], row["references"], row["files"]) == (0, path, 5, 2, 1)
    assert entered == registered == (0, [{"table": other.uri}])
    assert left == (0, [])


def test_blobs_are_counted_checked_and_read_without_spark(ran: Ran, table: BlobTable, tmp_path: Path) -> None:
    path = table.container(write_id(table.clock_ms, 1))
    (table.path / path).write_bytes(b"0123456789")
    instant = table.instant()
    table.base("f1", instant, {1: blob(path, 2, 3), 2: blob(path, 5, 4)})
    table.complete(instant, "commit")
    get = ["blobs", "get", str(table.path)]
    counted, sound, both, absent, wrong, no_blob, pair = ran(
        ["blobs", "inventory", str(table.path)],
        ["blobs", "verify", str(table.path)],
        [*get, "2", "1", "--column", "IMG"],
        [*get, "1", "9", "--column", "img"],
        [*get, "1", "--column", "imgs"],
        [*get, "1", "--column", "ts"],
        [*get, '["1", "2"]', "--column", "img"],
    )
    code, (row,) = counted
    assert (code, row["column"], row["container"]) == (0, "img", f"file://{table.path / path}")
    assert (row["kind"], row["blobs"], row["bytes"], row["dead_bytes"], row["dangling"]) == ("managed", 2, 7, 3, 0)
    assert sound == (0, [])
    values = {1: "MjM0", 2: "NTY3OA=="}
    assert both == (0, [{"key": str(key), "bytes": 5 - 3 + key, "value": values[key]} for key in (2, 1)])
    assert absent == (1, [{"key": "1", "bytes": 3, "value": values[1]}])
    assert (wrong, no_blob, pair) == ((2, []), (2, []), (2, []))
    assert main([*get, "2", "--column", "img", "--out", str(tmp_path / "two")]) == 0
    assert (tmp_path / "two").read_bytes() == b"5678"
    assert unread(*get, "2", "--column", "img", "--out", "-") == (0, "")
    said = f"hudi-vector: no row of '{table.path}' has the key '9'\n"
    assert unread(*get, "1", "9", "--column", "img", "--format", "json") == (1, said)
    assert hv.blobs.get(None, table.path, [1, 2], "img") == {1: b"234", 2: b"5678"}
    with pytest.raises(InvalidArgumentError, match="'photos' is found by a session only; give one, or a path"):
        hv.blobs.get(Settings(), "photos", ["1"], "img")
    with pytest.raises(UnknownColumnError, match="did you mean 'img'"):
        hv.blobs.get(None, str(table.path), ["1"], "imgs")


def test_without_a_session_a_table_is_a_path_on_this_machine(tmp_path: Path) -> None:
    for name in ("photos", "s3://lake/photos"):
        with pytest.raises(InvalidArgumentError, match=f"'{name}' is found by a session only; give one, or a path on"):
            hv.table_services.list_containers(None, name)
        with pytest.raises(InvalidArgumentError, match="is found by a session only"):
            hv.index.describe(None, name)
    with pytest.raises(TableNotFoundError, match=r"has no .hoodie/hoodie.properties; give the table's base path"):
        hv.table_services.registered_tables(None, str(tmp_path))


@pytest.fixture
def photos(tmp_path: Path) -> tuple[BlobTable, str, str]:
    """A table, its container that a row refers to, and one that nothing refers to; all of it is 60 days old."""
    table = BlobTable(tmp_path.resolve() / "photos", time.time_ns() // 1_000_000 - 60 * DAY)
    live, dead = (table.container(write_id(table.clock_ms, number)) for number in (1, 2))
    instant = table.instant()
    table.base("f1", instant, {1: blob(live)})
    table.complete(instant)
    return table, live, dead


def test_the_cleaner_needs_no_spark(ran: Ran, photos: tuple[BlobTable, str, str]) -> None:
    table, live, dead = photos
    given = ["--table", str(table.path)]
    young, marked, explained, for_good, planned, cleaned, restored = ran(
        ["mark-blobs", *given, "--conf", "hoodie.blob.clean.grace=90d"],
        ["mark-blobs", *given, "--conf", "spark.hoodie.blob.clean.grace=59d"],
        ["explain-blob", *given, "--path", live],
        ["services", "clean", str(table.path), "--dry-run", "--no-trash"],
        ["clean-blobs", *given, "--dry-run", "--conf", "spark.driver.memory=4g"],
        ["clean-blobs", *given],
        ["restore-blobs", *given],
    )
    acts = [{row["path"]: row["action"] for row in rows} for _, rows in (young, marked, planned, cleaned, restored)]
    assert [code for code, _ in (young, marked, explained, planned, cleaned, restored)] == [0] * 6
    assert acts[0] == {live: "keep", dead: "keep"}
    assert acts[1] == {live: "keep", dead: "unneeded"}
    assert explained[1][0]["action"] == "kept"
    assert {row["path"]: row["action"] for row in for_good[1]} == {live: "keep", dead: "delete"}
    assert acts[2] == acts[3] == {live: "keep", dead: "trash"}
    assert acts[4] == {dead: "restore"}
    assert (table.path / dead).exists()


def test_a_limit_of_the_settings_holds_without_spark(
    ran: Ran, photos: tuple[BlobTable, str, str], tmp_path: Path
) -> None:
    table, _, dead = photos
    (tmp_path / "spark-defaults.conf").write_text("spark.hoodie.blob.clean.max.share  1\n")
    clean = ["clean-blobs", "--table", str(table.path)]
    ((refused, _),) = ran(clean, SPARK_CONF_DIR=str(tmp_path))
    assert refused == 3
    assert (table.path / dead).exists()
    allowed = [*clean, "--conf", "hoodie.blob.clean.max.share=100"]
    ((code, _),) = ran(allowed, SPARK_CONF_DIR=str(tmp_path))
    assert code == 0
    assert not (table.path / dead).exists()


def test_a_table_on_an_object_store_is_cleaned_without_spark(
    ran: Ran, photos: tuple[BlobTable, str, str], tmp_path: Path
) -> None:
    table, live, dead = photos
    with servers.lake() as (options, client):
        for file in table.path.rglob("*"):
            if file.is_file():
                key = f"photos/{file.relative_to(table.path)}"
                client.put_object(Bucket="lake", Key=key, Body=file.read_bytes())
        named = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>" for key, value in options.values
        )
        (tmp_path / "core-site.xml").write_text(f"<configuration>{named}</configuration>")
        given = ["--table", "s3a://lake/photos"]
        described, listed, cleaned = ran(
            ["table", "s3a://lake/photos"],
            ["list-containers", *given],
            ["clean-blobs", *given, "--grace", "0s", "--max-share", "100"],
            HADOOP_CONF_DIR=str(tmp_path),
        )
    assert {"part": "blobs", "name": "files", "value": 2} in described[1]
    assert [(row["path"], row["live_bytes"]) for row in listed[1]] == [(live, 5), (dead, 0)]
    assert {row["path"]: row["action"] for row in cleaned[1]} == {live: "keep", dead: "trash"}


def test_spark_starts_for_executors_and_for_what_hudi_writes(
    photos: tuple[BlobTable, str, str], tmp_path: Path
) -> None:
    """There is no Java, so each command ends where Spark would start."""
    table, _, dead = photos
    of_custom_keys = {"hoodie.table.keygenerator.type": "CUSTOM"}
    custom = BlobTable(tmp_path / "custom", table.clock_ms, properties=of_custom_keys)
    instant = custom.instant()
    custom.base("f1", instant, {1: blob("x")})
    custom.complete(instant)
    clean = ["clean-blobs", "--table", str(table.path)]
    distributed = ["--conf", "hoodie.blob.clean.execution=distributed"]
    commands = [[*clean, "--run-hudi-clean"], [*clean, *distributed], [*clean, "--conf", "spark.master=yarn"]]
    commands.append(["clean-blobs", "--table", "photos"])
    commands.append(["blobs", "get", str(custom.path), "1", "--column", "img"])
    commands.append(["index", "create", str(table.path), "--column", "emb", "--conf", "spark.master=yarn"])
    commands.append(["blobs", "inventory", str(table.path), "--conf", "spark.master=yarn"])
    program = "import json, sys\nfrom hudi_vector.command.main import main\nprint(*map(main, json.loads(sys.argv[1])))"
    env = without_java(tmp_path, {"PATH": os.environ["PATH"]})
    command = [sys.executable, "-c", program, json.dumps(commands)]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr.count("Spark needs Java 17")) == ("1 1 1 1 1 1 1\n", 7)
    assert (table.path / dead).exists()


def test_services_take_settings_in_place_of_a_session(photos: tuple[BlobTable, str, str]) -> None:
    table, _, dead = photos
    young = Settings({"hoodie.blob.clean.grace": "90d"})
    for settings, candidates in ((young, []), (Settings(), [dead]), (None, [dead])):
        found = hv.table_services.clean_blobs(settings, str(table.path), dry_run=True)
        assert [file.path for file in found.candidates] == candidates
    with pytest.raises(InvalidArgumentError, match="Hudi's clean runs in Spark; give a session, or leave"):
        hv.table_services.clean_blobs(None, str(table.path), run_hudi_clean=True)
    with pytest.raises(InvalidOptionError, match="'distributed' needs a session; give one, or set it to 'local'"):
        hv.table_services.mark_blobs(Settings({"hoodie.blob.clean.execution": "distributed"}), str(table.path))
    with pytest.raises(InvalidArgumentError, match="'photos' is found by a session only"):
        hv.table_services.clean_blobs(young, "photos")
    with pytest.raises(InvalidOptionError, match=r"did you mean 'hoodie\.blob\.clean\.grace'"):
        Settings({"hoodie.blob.clean.gracee": "90d"})
    assert "90d" not in repr(young)


def test_an_index_elsewhere_is_found_by_the_settings(vectors: Path, tmp_path: Path) -> None:
    elsewhere = Settings({"hoodie.vector.index.external.dir": str(tmp_path / "indexes")})
    folder = f"{tmp_path}/indexes"
    (beside,) = hv.index.describe(elsewhere, str(vectors))
    snapshot = NativeTable(Source(f"file://{vectors}", "t")).snapshot()
    spec = ScanSpec(snapshot.source.uri, snapshot.schema, VectorColumn("emb", 4, "float"))
    create_index(snapshot, spec, Parameters(metric="cosine"), home=in_directory(folder, snapshot.source.uri, "emb"))
    assert {each.metric for each in hv.index.describe(elsewhere, str(vectors))} == {beside.metric, "cosine"}


def test_settings_come_from_the_files_that_a_session_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def site(folder: Path, text: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "core-site.xml").write_text(f"<configuration>{text}</configuration>")

    def setting(key: str, value: str) -> str:
        return f"<property><name>{key}</name><value>{value}</value><final>true</final></property>"

    spark, hadoop = tmp_path / "spark", tmp_path / "hadoop"
    monkeypatch.setenv("SPARK_CONF_DIR", str(spark))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop))
    assert settings_here({}) == Settings()
    site(
        hadoop,
        setting("fs.s3a.endpoint", "http://hadoop") + setting("fs.s3a.region", " eu ") + setting("other", "${x}"),
    )
    site(spark, setting("fs.s3a.access.key", "spark") + setting("fs.s3a.region", "us"))
    (spark / "spark-defaults.conf").write_text(
        "# Spark's\nspark.hadoop.fs.s3a.endpoint   http://defaults\nspark.hoodie.blob.clean.grace=2h\n"
        "hoodie.blob.clean.max.files 3\nspark.hoodie.blob.clean.max.share = 4 \n"
    )
    found = settings_here({"spark.hadoop.fs.s3a.access.key": "given", "hoodie.blob.clean.grace": "3h"})
    assert found is not None
    assert found.values == {
        "fs.s3a.endpoint": "http://defaults", "fs.s3a.region": "us", "fs.s3a.access.key": "given", "other": "${x}",
        "hoodie.blob.clean.grace": "3h", "hoodie.blob.clean.max.share": "4",
    }  # fmt: skip
    for text in (setting("fs.s3a.endpoint", "${env.ENDPOINT}"), "<include href='more.xml'/>", "<property>"):
        site(hadoop, text)
        (spark / "spark-defaults.conf").unlink(missing_ok=True)
        assert settings_here({}) is None


def test_a_table_is_searched_explained_and_described_without_spark(ran: Ran, vectors: Path, tmp_path: Path) -> None:
    with hv.open(str(vectors), column="emb") as opened:
        query = opened.search([1.0, 0, 0, 0], 1, columns=["emb"], filter="id = 7").column("emb").to_pylist()[0]
        expected = opened.search(query, 3, metric="l2", columns=["id"], filter="id <> 7 AND price < 2").to_pylist()
        batch = opened.search_batch([query, [0.0, 0, 1, 0]], 2, columns=["id"]).to_pylist()
        groups: dict[str, Any] = {"group_by": ["name", "grp"], "per_group": 3, "group_nulls": "drop"}
        best = opened.search(query, 2, columns=["id"], **groups).to_pylist()
    np.save(tmp_path / "q.npy", np.array([query, [0.0, 0, 1, 0]]))
    (tmp_path / "q.json").write_text(json.dumps(query))
    column = [str(vectors), "--column", "emb"]
    (like, liked), (of_file, filed), (of_many, many), (of_groups, grouped), (described, facts), none, planned = ran(
        ["search", *column, "--like", "7", "-k", "3", "--metric", "l2", "--columns", "id", "--filter", "price < 2"],
        ["search", *column, "--query-file", "q.json", "-k", "4", "--metric", "l2", "--columns", "id"],
        ["search", *column, "--query-file", "q.npy", "-k", "2", "--columns", "id"],
        [
            "search",
            *column,
            "--query-file",
            "q.json",
            "-k",
            "2",
            "--columns",
            "id",
            "--group-by",
            "name, grp",
            "--per-group",
            "3",
            "--group-nulls",
            "drop",
        ],
        ["table", str(vectors)],
        ["search", *column, "--like", "no such key"],
        ["explain", *column, "--like", "7", "--metric", "l2"],
    )
    assert (like, of_file, of_many, of_groups, described, none) == (0, 0, 0, 0, 0, (2, []))
    assert liked == expected
    assert grouped == best
    assert planned[0] == 0
    assert "ivf_sq8 for l2" in planned[1][0]["plan"]
    assert [row["id"] for row in filed] == [7, *(row["id"] for row in expected)]
    assert many == batch
    told = {(row["part"], row["name"]): row["value"] for row in facts}
    assert told["column", "emb"] == "VECTOR(4, FLOAT)"
    assert (told["files", "file_slices"], told["timeline", "completed"]) == (2, 2)
    assert told["index", "emb l2 ivf_sq8"] == "1 of 2 files"
    assert told["files", "bytes"] == sum(file.stat().st_size for file in vectors.rglob("*.parquet"))


def test_plain_columns_are_shown_and_plans_need_no_query(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    column = [str(vectors), "--column", "emb"]
    assert main(["search", str(vectors), "--query", "1,0,0,0", "-k", "2"]) == 0  # by its only vector column
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["id", "name", "price", "grp", "_distance"]
    assert err.startswith("hudi-vector: 2 rows by cosine at instant ")
    assert main(["search", *column, "--query", "1,0,0,0", "--group-by", "name"]) == 0
    assert capsys.readouterr().err.startswith("hudi-vector: 1 row of 1 group by cosine at instant ")
    assert main(["search", *column, "--query", "1,0,0,0", "--per-group", "2"]) == 2
    assert "per_group needs group_by" in capsys.readouterr().err
    assert main(["search", *column, "--query", "1,0,0,0", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["explain", *column, "--metric", "l2", "-k", "3"]) == 0
    plan = capsys.readouterr().out
    with hv.open(str(vectors), column="emb") as opened:
        assert plan == hv.explain(opened.search, [1.0] * 4, 3, metric="l2") + "\n"
    assert main(["search", *column]) == 2
    assert capsys.readouterr().err == ("hudi-vector: give the vector to search for: --query, --query-file or --like\n")
    capsys.readouterr()
    for text, sentence in {
        "1,2": "has 2 elements, the column has 4",
        "null": "holds NULL",
        "[1,null,0,0]": "holds NULL",
        "[NaN,0,0,0]": "holds NaN or infinity",
    }.items():
        assert main(["search", *column, "--query", text]) == main(["explain", *column, "--query", text]) == 2
        assert capsys.readouterr().err.count(f"hudi-vector: the query vector {sentence}; ") == 2
    assert main(["search", *column, "--query", "1,2,3,4", "--as-of", "20200101000000000"]) == 1
    assert capsys.readouterr().out == ""


def test_a_table_is_described_by_its_bare_name(
    vectors: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(vectors.parent)
    assert main(["table", vectors.name, "--format", "csv"]) == 0
    assert "index,emb l2 ivf_sq8,1 of 2 files" in capsys.readouterr().out


def test_a_receipt_that_cannot_be_written_is_refused_before_the_search(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["search", str(vectors), "--query", "1,0,0,0", "--quiet", "--receipt"]
    assert main([*asked, str(tmp_path / "receipt.json")]) == 0
    monkeypatch.setattr(hv, "open", None)  # no search begins
    capsys.readouterr()
    for place, sentence in {
        tmp_path / "none" / "receipt.json": "cannot be written to",
        tmp_path: "cannot be written to",
        tmp_path / "receipt.json" / "more": "cannot be written to",
        vectors / "receipt.json": "would lie among the data files of the table",
    }.items():
        assert main([*asked, str(place)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert str(place) in err
        assert sentence in err


@pytest.mark.parametrize("columns", [[], ["--columns", "*"], ["--columns", " * "]], ids="".join)
def test_all_plain_columns_of_files_and_tables_are_shown(
    vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: list[str]
) -> None:
    file, lists = str(tmp_path / "a.parquet"), pa.list_(pa.float32())
    pq.write_table(pa.table({"id": [1, 2], "word": ["a", "b"], "v": pa.array([[1, 2], [3, 5]], lists)}), file)
    of_file = ["--file", file, "--column", "v", "--query", "[1,2]", "--metric", "l2", *columns]
    assert main(["search", *of_file, "--format", "json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    near = {"id": 1, "word": "a", "_distance": 0.0}
    assert found == [near, {"id": 2, "word": "b", "_distance": pytest.approx(13**0.5)}]
    assert main(["explain", *of_file]) == 0
    assert "l2, k = 10" in capsys.readouterr().out
    assert main(["search", str(vectors), "--query", "1,0,0,0", "-k", "1", *columns, "--format", "json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["id", "name", "price", "grp", "_distance"]


@pytest.mark.parametrize(
    ("kind", "values", "shown"),
    [
        (pa.date32(), [2_932_897, 0], ["10000-01-01", "1970-01-01"]),
        (
            pa.timestamp("us", "America/Los_Angeles"),
            [253_402_329_599_000_000, 0],
            ["9999-12-31 23:59:59.000000-0800", "1969-12-31 16:00:00.000000-0800"],
        ),
        (pa.time64("ns"), [1, 1500], ["00:00:00.000000001", "00:00:00.000001500"]),
        (pa.duration("ns"), [1, 1500], ["1", "1500"]),
    ],
    ids=["date", "zone", "nanoseconds", "duration"],
)
def test_times_that_python_has_no_value_for_are_shown(
    ran: Ran, tmp_path: Path, kind: pa.DataType, values: list[int], shown: list[str]
) -> None:
    """In a process without pandas, whose values would have nanoseconds."""
    times = pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    table = {"at": times, "all": pa.FixedSizeListArray.from_arrays(times, 1), "v": [[1.0], [2.0]]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    asked = ["search", "--file", "a.parquet", "--column", "v", "--query", "1", "--metric", "l2", "--columns"]
    (code, rows), nested = ran([*asked, "at"], [*asked, "all"])
    assert (code, [row["at"] for row in rows]) == (0, shown)
    assert nested == (2, [])
