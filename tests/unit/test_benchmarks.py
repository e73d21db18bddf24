"""The benchmarks' way of timing, and that tables of docs/ are what the runs in benchmarks/results/ say."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.loaded import module

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/**/*.md"))
RUNS = sorted(ROOT.glob("benchmarks/results/*.json"))


@pytest.fixture(scope="module")
def common() -> ModuleType:
    return module("benchmarks/common.py", "benchmarks_common")


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return module("docs/generate.py", "docs_generate")


def test_all_ways_are_run_in_rounds_and_as_often(common: ModuleType) -> None:
    told: list[str] = []
    ways = {
        name: common.Way(lambda name=name: told.append(name), lambda: told.append("("), lambda: told.append(")"))
        for name in "abc"
    }
    times = common.in_turns(ways, repeats=4, warm=2)
    rounds = ["".join(told)[first : first + 9] for first in range(0, 6 * 9, 9)]
    assert [sorted(told.strip("()").split(")(")) for told in rounds] == [["a", "b", "c"]] * 6
    assert {name: len(taken) for name, taken in times.items()} == {"a": 4, "b": 4, "c": 4}
    assert common.in_turns(ways, repeats=0, warm=1) == {"a": [], "b": [], "c": []}


def test_no_way_always_follows_the_same_one(common: ModuleType) -> None:
    told: list[str] = []
    common.in_turns({name: common.Way(lambda name=name: told.append(name)) for name in "abcdef"}, repeats=8)
    before = {name: {told[at - 1] for at in range(1, len(told)) if told[at] == name} for name in "abcdef"}
    assert all(len(names) >= 3 for names in before.values()), before


def test_what_comes_before_and_after_a_run_is_not_timed(common: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(common.time, "perf_counter", lambda: clock[0])

    def passing(seconds: float) -> Any:
        return lambda: clock.__setitem__(0, clock[0] + seconds)

    way = common.Way(passing(2.0), passing(30.0), passing(500.0))
    assert common.in_turns({"a": way}, repeats=3) == {"a": [2.0, 2.0, 2.0]}


def test_a_ratio_is_of_medians_and_its_range_of_parts_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    paired = module("benchmarks/paired.py", "benchmarks_paired")
    base = [1.0, 1.0, 9.0, 2.0, 2.0, 2.0]
    times = [2.0, 2.0, 2.0, 2.0, 8.0, 2.0]
    assert vars(paired.ratio(times, base, parts=2)) == {"ratio": 1.5, "least": 1.0, "largest": 2.0, "of_least": 2.0}
    assert vars(paired.ratio(base, base)) == {"ratio": 1.0, "least": 1.0, "largest": 1.0, "of_least": 1.0}


def test_a_run_is_written_with_its_machine_and_a_small_one_elsewhere(
    common: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path / "benchmarks" / "results")
    about = common.environment()
    assert about["machine"]["processors"] >= 1
    assert about["machine"]["memory_gib"] > 0
    for small, folder in ((False, tmp_path / "benchmarks/results"), (True, tmp_path / "out")):
        given = argparse.Namespace(small=small, output=tmp_path / "out")
        path = common.publish("search", given, about, {"seconds": {"a": {"b": [1.0]}}})
        assert path == folder / "search.json"
        written = json.loads(path.read_text("utf-8"))
        assert {"benchmark", "command", "date", "commit", "machine", "versions", "seconds"} == written.keys()


def test_the_command_of_a_run_names_no_folder_of_one_machine(common: ModuleType) -> None:
    words = ["--set", "digits", "--cache", "/a", "--files", "8", "--output", "/b", "--clean", "--against", "/c"]
    assert common._said(words) == ["--set", "digits", "--files", "8", "--clean"]
    assert common._said(["--clean"]) == ["--clean"]


def test_every_table_has_a_place_and_every_place_a_table(generate: ModuleType) -> None:
    places = [place for page in PAGES for place in generate.regions(page.read_text("utf-8"))]
    assert len(set(places)) == len(places)
    assert {table for _, table in places} == set(generate.TABLES)
    marks = sum(page.read_text("utf-8").count("<!-- of benchmarks/") for page in PAGES)
    assert marks == len(places), "a mark is misspelt"
    assert {run.stem for run in RUNS} <= {run for run, _ in places}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_what_the_runs_say(generate: ModuleType, page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == generate.filled(text), "run `make docs`"


ABOUT = {
    "command": "python benchmarks/it.py",
    "date": "2026-01-02",
    "commit": "0123456789abcdef",
    "machine": {"processor": "P", "processors": 2, "memory_gib": 8.0, "system": "Linux 6"},
    "versions": {"python": "3.11", "pyspark": "3.5.9"},
}
SAMPLES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "search": (
        {"seconds": {"snappy": {"native": [3.0, 1.0, 2.0], "ours, repeated": [0.1, 0.2, 0.3]}}},
        ["| native | 2,000 (1,000–3,000) |", "| ours, repeated | 200 (100–300) |"],
    ),
    "search_ratios": (
        {"seconds": {"snappy": {"native": [3.0, 1.0, 2.0], "ours, repeated": [0.1, 0.2, 0.3]}}},
        ["| repeated | 10.0× |", "| read anew |  |"],
    ),
    "search_session": (
        {"seconds": {"first": {"native": [9.0], "ours": [2.0]}, "10th": {"ours": [0.2], "SELECT 1": [0.1]}}},
        [
            "| first | 9,000 (9,000–9,000) | 2,000 (2,000–2,000) |  |  | 4.5× |  |  |",
            "| 10th |  | 200 (200–200) |  | 100 (100–100) |  |  | 2.0× |",
        ],
    ),
    "search_cluster": (
        {"seconds": {"two executors": {"SELECT 1": [0.1], "exact, driver": [0.2], "exact, executors": [0.3]}}},
        ["| exact | 200 (200–200) | 300 (300–300) | 1.5× |", "| SELECT 1 |  | 100 (100–100) |  |"],
    ),
    "search_profile": ({"profile": ["plan 1 ms", "scan 2 ms", "", "of Python"]}, ["plan 1 ms\nscan 2 ms\n```"]),
    "blobs_writing": (
        {"size": {"blobs": 10, "size": 1_000_000}, "seconds": {"writing": {"a copy": [0.5, 1.0, 2.0]}}},
        ["| a copy | 10 (5–20) |"],
    ),
    "blobs_reading": (
        {
            "seconds": {"writing": {}, "files": {"native": [0.002], "ours": [0.001]}},
            "peaks": {"files, native": {"worker": 0, "jvm": 10**9}, "files, ours": {"worker": 10**8, "jvm": 10**9}},
        },
        ["| files | ours | 1 (1–1) | 2.0× | 100, 1,000 |"],
    ),
    "blobs_singles": (
        {"seconds": {"ten of 20 rows": {"native": [0.5]}, "ten of 90 rows": {"native": [0.25]}}},
        ["| ms | ten of 20 rows | ten of 90 rows |", "| native | 500 (500–500) | 250 (250–250) |"],
    ),
    "training": (
        {
            "found": {
                "rows": 640,
                "seconds": {"disk": {"table": {"containers": [2.0], "inline": [5.0], "files": [10.0]}}},
                "planning": {"containers": {"seconds": 0.25, "bytes": 6400.0}},
            }
        },
        ["| disk: table | 5 (5–5) | 2 (2–2) | 1 (1–1) | 5.0× |", "containers 250 ms, 10 bytes a row."],
    ),
    "services_scans": (
        {"rates": {"base files": {"median": 1e6, "least": 9e5, "largest": 1.1e6}}},
        ["| base files | 1,000,000 (900,000–1,100,000) |"],
    ),
    "services_marks": (
        {"seconds": {"mark": {"again": [1.0, 2.0, 3.0]}}, "files": {"again": [0, 150]}},
        ["| again | 2 (1–3) | 0 of 150 |"],
    ),
    "compaction": (
        {"seconds": {"compaction": {"copy": [1.5]}}, "ratios": [0.4, 0.5]},
        ["| copy | 1.5 (1.5–1.5) |", "| copy / byte phase, of each round | 0.45 (0.4–0.5) |"],
    ),
    "clustering": (
        {
            "rows": [
                {
                    "partitions": 8,
                    "search": "exact",
                    "when": when,
                    "recall": 1.0,
                    "pages": {"median": pages, "least": 1, "largest": 30},
                    "page_bytes": {"median": pages * 1e6, "least": 1e6, "largest": 3e7},
                }
                for when, pages in (("before", 20), ("after", 5))
            ]
        },
        ["| 8, exact | 20 (1–30) | 5 (1–30) | 4.0× | 20 | 5 | 1.000 | 1.000 |"],
    ),
    "join": (
        {
            "left": 100,
            "right": 1000,
            "before": {"C": 3.0},
            "C, narrow": {"recall": 0.99, "seconds": {"median": 2, "least": 1, "largest": 3}},
        },
        ["| 100 × 1,000 | seconds | recall |", "| C, narrow | 2 (1–3) | 0.990 |"],
    ),
    "join_ratios": ({"ratios": {"C / A": 1.234}}, ["| C / A | 1.23 |"]),
    "streaming": (
        {
            "figures": [
                {
                    "subject": "4: stream",
                    "rows_per_second": 1234.5,
                    "batch_seconds": {"median": 2, "least": 1, "largest": 3},
                    "recall": 0.95,
                }
            ]
        },
        ["| 4: stream | 1,234 | 2 (1–3) | 0.950 |"],
    ),
    "index": (
        {
            "rows": [
                {"subject": "one", "recall": 1.0, "p50": 1.0, "p90": 2.0, "p99": 3.0, "cpu": 1},
                {"subject": "one, 4 probes, 2 k candidates", "recall": 0.5},
                {"subject": "made", "seconds": 2.0, "bytes_per_vector": 140.0},
            ]
        },
        ["| one | 1.000 | 1, 2, 3 |  |  |  |", " |\n| made |  |  |  | 2 | 140 |"],
    ),
    "index_kinds": (
        {
            "rows": [
                {"subject": "create hnsw", "seconds": 2.0, "bytes_per_vector": 140.0},
                {"subject": "hnsw, recall target 0.95", "recall": 0.96, "p50": 1.0, "p90": 2.0, "p99": 3.0, "cpu": 1},
                {
                    "subject": "batch of 1000, hnsw, recall target 0.95",
                    "queries_per_second": {"median": 200.0, "least": 100.0, "largest": 300.0},
                },
            ]
        },
        ["| `hnsw` | 140 | 2 | 0.960 | 1 | 3 | 200 (100–300) |"],
    ),
    "hybrid": (
        {"seconds": {"hybrid": {"ours": [0.1], "native, two searches and a join": [0.2]}}, "native_recall": 0.9},
        ["| ours | 100 (100–100) | 1.00 |", "| native, two searches and a join | 200 (200–200) | 0.90 |"],
    ),
    "paired": (
        {
            "machine": {**ABOUT["machine"], "load_before": 1.5},
            "size": {"rows": 1000, "dimension": 8, "rounds": 6},
            "ratios": {
                "hv.open, exact": {"receipt made": {"ratio": 1.234, "least": 0.999, "largest": 2.0, "of_least": 1.1}}
            },
            "against": {
                "commit": "abcdef0123456789",
                "ratios": {"spark.sql, exact": {"ratio": 1.0, "least": 0.9, "largest": 1.1, "of_least": 1.0}},
            },
        },
        [
            "| hv.open, exact | receipt made, to plain | 1.23 (1.00–2.00) | 1.10 |",
            "| spark.sql, exact | plain, to plain of commit abcdef0123 | 1.00 (0.90–1.10) | 1.00 |",
        ],
    ),
    "grouped": (
        {
            "size": {"documents": 2000},
            "seconds": {"hv.open, exact": {"k groups": [0.01]}},
            "facts": {
                "rows": 40_000,
                "load_before": 5.5,
                "queries": 400,
                "wrong_answers_of_the_window": 30,
                "documents_missing_in_them": 70,
                "recall_in_groups": 0.9612,
            },
        },
        ["| hv.open, exact | k groups | 10 (10–10) |", "40,000 chunks of 2,000 documents", "30 had fewer", "0.961"],
    ),
    "codecs": (
        {
            "rows": [
                {
                    "data": "d",
                    "codec": "zstd",
                    "megabytes": 12.345,
                    "write_seconds": {"median": 2, "least": 1, "largest": 3},
                    "read_seconds": {"median": 0.2, "least": 0.1, "largest": 0.3},
                }
            ]
        },
        ["| d | zstd | 12.3 | 2 (1–3) | 0.2 (0.1–0.3) |"],
    ),
    "scale": (
        {
            "rows": [
                {"way": "ours", "step": "build", "seconds": 61.5, "memory": 2_500_000_000},
                {"way": "ours", "step": "index, cold", "recall": 0.97, "p50": 5.5, "p90": 6, "p99": 7, "memory": 10**9},
                {"way": "faiss", "step": "batch of 1,000", "recall": 1.0, "queries_per_second": 4000.0},
            ]
        },
        [
            "| ours: build |  |  |  | 61.5 |  | 2.5 |",
            "| ours: index, cold | 0.970 | 5.5 | 7 |  |  | 1 |",
            "| faiss: batch of 1,000 | 1.000 |  |  |  | 4,000 |  |",
        ],
    ),
    "object_store": (
        {
            "versions": {"python": "3.11", "pyspark": "3.5.9", "lance": "14"},
            "tables": [{"table": "t", "efforts": [{"nprobes": n, "refine_factor": 2} for n in (4, 64)]}],
            "rows": [
                {
                    "table": "t",
                    "way": way,
                    "kind": "exact",
                    "step": "again",
                    "seconds": {"median": seconds, "least": 1, "largest": 9},
                    **{name: {"median": 5} for name in ("requests", "megabytes", "waves", "heads")},
                    "recall": 1.0,
                }
                for way, seconds in (("ours, exact", 6), ("Lance, exact", 4))
            ],
        },
        [
            "| t: ours, exact | again | 6 (1–9) | 1.5× | 5 | 5 | 5 | 5 | 1.000 |",
            "| t: Lance, exact | again | 4 (1–9) | 1.0× |",
            "Lance 14; LanceDB was not there. ",
            "with each: t, 4 lists with 2 k candidates and 64 lists with 2 k candidates.",
        ],
    ),
    "object_store_builds": (
        {
            "builds": [
                {"table": "few rows", "way": "ours", "seconds": 1.5, "requests": 7, "megabytes": 0.25, "waves": 3}
            ]
        },
        ["| few rows: ours | 1.5 | 7 | 0.25 | 3 |"],
    ),
    "erasure": (
        {"seconds": {"vectors": {"delete": [1.0, 2.0, 3.0], "in all": [9.5]}}},
        ["| vectors | delete | 2 (1–3) |", "| vectors | in all | 9.5 (9.5–9.5) |", "| --- | --- | ---: |"],
    ),
    "object_store_blobs": (
        {
            "rows": [
                {
                    "step": "write",
                    "seconds": 1.5,
                    **dict.fromkeys(("requests", "of_ours", "waves", "waves_of_ours", "megabytes"), 3),
                    **{f"{name}of_containers": 0.25 for name in ("", "waves_", "megabytes_")},
                }
            ]
        },
        ["| write | 1.5 | 3 | 3 | 3 | 3 | 3 | 0.25 | 0.25 | 0.25 |"],
    ),
}


def test_there_is_a_sample_of_every_table(generate: ModuleType) -> None:
    assert SAMPLES.keys() == generate.TABLES.keys()


@pytest.mark.parametrize("table", SAMPLES)
def test_a_table_is_made_of_one_run(generate: ModuleType, tmp_path: Path, table: str) -> None:
    run, expected = SAMPLES[table]
    text = f"before\n<!-- of benchmarks/results/it.json: {table} -->\nold\n<!-- until here -->\nafter\n"
    assert generate.filled(text, tmp_path) == text, "there is no run"
    (tmp_path / "it.json").write_text(json.dumps(ABOUT | run), "utf-8")
    made = generate.filled(text, tmp_path)
    assert made.startswith("before\n<!-- of")
    assert made.endswith("<!-- until here -->\nafter\n")
    assert "\nold\n" not in made
    assert "of 2026-01-02, commit 0123456789: P, 2 processors, 8.0 GiB" in made
    for part in expected:
        assert part in made
    assert generate.filled(made, tmp_path) == made
