"""Commands that only list, read and remove files: no Spark starts for them on this machine, which may have no Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.blob_states import BlobTable, blob, write_id
from support.written_table import Row, WrittenTable

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError, TableNotFoundError
from hudi_vector.index.build import Parameters, create_index
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

ROOT = Path(hv.__file__).parents[1]

_RUN = """
import json, sys
from hudi_vector.cli import main

for arguments in json.loads(sys.argv[1]):
    print("code", main(arguments), flush=True)
    assert not {"pyspark", "py4j"} & sys.modules.keys(), arguments
"""


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


def ran(tmp_path: Path, *commands: list[str]) -> list[tuple[int, list[dict[str, Any]]]]:
    """The exit code and the rows of each command, run where no Java is to be found."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "SPARK", "PYSPARK"))}
    env = {**kept, "PYTHONPATH": str(ROOT), "PATH": str(tmp_path / "bin"), "JAVA_HOME": str(tmp_path / "none")}
    command = [sys.executable, "-c", _RUN, json.dumps([[*words, "--format", "json"] for words in commands])]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found, rows = [], []
    for line in done.stdout.splitlines():
        if line.startswith("code "):
            found.append((int(line.removeprefix("code ")), rows))
            rows = []
        else:
            rows.append(json.loads(line))
    return found


def test_indexes_are_looked_after_without_spark(vectors: Path, tmp_path: Path) -> None:
    def index(command: str, *more: str) -> list[str]:
        return ["index", command, "--table", str(vectors), *more]

    column = ("--column", "emb")
    described, narrowed, verified, compacted, dropped, none = ran(
        tmp_path,
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


def test_a_damaged_index_is_found_without_spark(vectors: Path, tmp_path: Path) -> None:
    (segment,) = vectors.glob(".hoodie/vector_index/v1/emb/l2-ivf_sq8/segments/*")
    segment.write_bytes(segment.read_bytes()[:-9])
    ((code, (row,)),) = ran(tmp_path, ["index", "verify", "--table", str(vectors), "--column", "emb"])
    assert (code, row["segment"]) == (1, segment.name)


def test_blobs_are_listed_and_tables_registered_without_spark(table: BlobTable, tmp_path: Path) -> None:
    other = BlobTable(tmp_path.resolve() / "other", table.clock_ms)
    path = table.container(write_id(table.clock_ms, 1))
    instant = table.instant()
    table.base("f1", instant, {1: blob(path, 0, 3), 2: blob(path, 1, 4)})
    table.complete(instant, "commit")
    given, both = ["--table", str(table.path)], ["--with", str(other.path)]
    listed, entered, registered, left = ran(
        tmp_path,
        ["list-containers", *given],
        ["register-tables", *given, *both],
        ["registered-tables", *given],
        ["unregister-tables", *given, *both],
    )
    code, (row,) = listed
    assert (code, row["path"], row["live_bytes"], row["references"], row["files"]) == (0, path, 5, 2, 1)
    assert entered == registered == (0, [{"table": other.uri}])
    assert left == (0, [])


def test_without_a_session_a_table_is_a_path_on_this_machine(tmp_path: Path) -> None:
    for name in ("photos", "s3://lake/photos"):
        with pytest.raises(InvalidArgumentError, match=f"'{name}' is found by a session only; give one, or a path on"):
            hv.table_services.list_containers(None, name)
        with pytest.raises(InvalidArgumentError, match="is found by a session only"):
            hv.index.describe(None, name)
    with pytest.raises(TableNotFoundError, match=r"has no .hoodie/hoodie.properties; give the table's base path"):
        hv.table_services.registered_tables(None, str(tmp_path))
