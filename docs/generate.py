"""Write what is generated in docs/: the page of settings, and tables of measurements. Run by ``make docs``.

A table lies between two comments. The first names the run that it is made of, ``benchmarks/results/{run}.json``, and
the table. One run makes a table whole. A run that is not there leaves what lies there.
"""

from __future__ import annotations

import importlib
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hudi_vector.metrics.definitions import markdown as metrics_table
from hudi_vector.options import markdown

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = """# Settings

Set them in the session (`SET key = value` or `spark.conf.set`), or pass them to the Spark-free search. This page is
generated from `hudi_vector/options.py` by `make docs`.

A key that begins with `hoodie.vector.`, `hoodie.blob.` or `hoodie.storage.blob.` and is neither listed here nor one of
Hudi's own is misspelt. It is an error that names the nearest right one, wherever it is given: in the session, at the
next search, write or service; in `options` of `hv.write`, `hv.blobs.prepare` and `hv.open`; as `--conf`
of the command, before Spark starts. No setting is read from the properties of a table: a write warns of those that
look like one. `hoodie.vector.searched.columns`, which `hv.vectors` writes there, is no setting.

"""
_REGION = re.compile(r"(<!-- of benchmarks/results/(\S+)\.json: (\w+) -->\n)(.*?)(<!-- until here -->\n)", re.DOTALL)

Run = Mapping[str, Any]


def options_page() -> str:
    """The text of docs/reference/options.md."""
    return PAGE + markdown()


def differences_page() -> str:
    """The text of docs/reference/differences-from-hudi.md, out of the list that tests/conformance shows."""
    return str(_support("differences").page())


def with_rooms(text: str) -> str:
    """The page of the architecture with its table of packages, out of the rows that tests hold the code against."""
    return _with(text, "tests/support/house.py", str(_support("house").page()))


def with_metrics(text: str) -> str:
    """The page of metrics with its table, out of the definitions that they are made of."""
    return _with(text, "hudi_vector/metrics/definitions.py", metrics_table())


def _with(text: str, source: str, table: str) -> str:
    """A page with a table between the comment that names its source and the next one that ends a table."""
    begin, end = f"<!-- of {source} -->\n", "<!-- until here -->\n"
    head, _, rest = text.partition(begin)
    return f"{head}{begin}{table}\n{end}{rest.partition(end)[2]}"


def _support(name: str) -> ModuleType:
    """Import a module of tests/support/."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        return importlib.import_module(f"support.{name}")
    finally:
        sys.path.pop(0)


def regions(text: str) -> list[tuple[str, str]]:
    """The runs and the tables that a page has a place for."""
    return [(found[2], found[3]) for found in _REGION.finditer(text)]


def filled(text: str, results: Path = RESULTS) -> str:
    """A page with its tables, made of the runs that there are."""

    def made(found: re.Match[str]) -> str:
        begin, run, table, before, end = found.groups()
        file = results / f"{run}.json"
        if not file.exists():
            return begin + before + end
        content = json.loads(file.read_text(encoding="utf-8"))
        return f"{begin}{TABLES[table](content)}\n\n{_about(content)}\n{end}"

    return _REGION.sub(made, text)


def _about(run: Run) -> str:
    """What a table says of its run: how, when, where, with what."""
    machine, versions = run["machine"], run["versions"]
    return (
        f"One run of `{run['command']}` of {run['date']}, commit {str(run['commit'])[:10]}: {machine['processor']}, "
        f"{machine['processors']} processors, {machine['memory_gib']} GiB, {machine['system']}; Python "
        f"{versions['python']}, Spark {versions['pyspark']}. Medians, in parentheses the least and the largest."
    )


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    """Three digits that matter, and thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"


def _spread(times: Sequence[float] | Mapping[str, float] | None, scale: float = 1.0) -> str:
    """Return a median with its range, of all times or as a benchmark measured them; "" without times."""
    if not times:
        return ""
    if isinstance(times, Mapping):
        middle, least, most = times["median"], times["least"], times["largest"]
    else:
        middle, least, most = statistics.median(times), min(times), max(times)
    shown = sorted((least * scale, most * scale))
    return f"{_number(middle * scale)} ({_number(shown[0])}–{_number(shown[1])})"


def _ratio(slow: Sequence[float] | None, quick: Sequence[float] | None) -> str:
    return f"{statistics.median(slow) / statistics.median(quick):.1f}×" if slow and quick else ""


_SEARCHES = (
    ("native, first touch", "ours, first touch"),
    ("native", "ours, read anew"),
    ("native", "ours, repeated"),
    ("native, 5 columns", "ours, repeated, 5 columns"),
    ("native", "ours, distributed"),
    ("native, batch of 20", "ours, batch of 20"),
)


def search(run: Run) -> str:
    """Each table, each way, in milliseconds."""
    ways = list(dict.fromkeys(way for found in run["seconds"].values() for way in found))
    return _rows(
        ["ms", *run["seconds"]],
        ([way, *(_spread(found.get(way), 1000) for found in run["seconds"].values())] for way in ways),
    )


def search_ratios(run: Run) -> str:
    """How many times longer the native function took for the same."""
    return _rows(
        ["native / ours", *run["seconds"]],
        (
            [
                ours.removeprefix("ours, "),
                *(_ratio(found.get(other), found.get(ours)) for found in run["seconds"].values()),
            ]
            for other, ours in _SEARCHES
        ),
    )


def search_session(run: Run) -> str:
    """What the first searches of a session take, and ``SELECT 1`` of the same moment."""
    shown = ("native", "ours", "ours, from_json", "SELECT 1")
    return _rows(
        ["ms", *shown, "native / ours", "native / ours, from_json", "ours / SELECT 1"],
        (
            [
                stage,
                *(_spread(ways.get(way), 1000) for way in shown),
                _ratio(ways.get("native"), ways.get("ours")),
                _ratio(ways.get("native"), ways.get("ours, from_json")),
                _ratio(ways.get("ours"), ways.get("SELECT 1")),
            ]
            for stage, ways in run["seconds"].items()
        ),
    )


def search_cluster(run: Run) -> str:
    """What searches take on the driver and on executors, and what Spark takes for less."""
    times = run["seconds"]["two executors"]
    searched = sorted({way.partition(",")[0] for way in times if "," in way})
    others = [[way, "", _spread(taken, 1000), ""] for way, taken in times.items() if "," not in way]
    sides = [(name, times[f"{name}, driver"], times[f"{name}, executors"]) for name in searched]
    return _rows(
        ["ms", "driver", "executors", "executors / driver"],
        [
            *([name, _spread(here, 1000), _spread(there, 1000), _ratio(there, here)] for name, here, there in sides),
            *others,
        ],
    )


def search_profile(run: Run) -> str:
    """Where the time of a repeated search goes, up to the profile of Python."""
    lines = run["profile"][: run["profile"].index("")]
    return "\n".join(["```", *lines, "```"])


def blobs_writing(run: Run) -> str:
    """Megabytes a second."""
    size = run["size"]["blobs"] * run["size"]["size"] / 1e6
    rates = {way: [size / seconds for seconds in times] for way, times in run["seconds"]["writing"].items()}
    return _rows(["writing", "MB/s"], ([way, _spread(rate)] for way, rate in rates.items()))


def blobs_reading(run: Run) -> str:
    """Milliseconds for each blob, and what memory it took."""
    rows = []
    for subject, ways in run["seconds"].items():
        if subject not in ("writing", "ten single values"):
            for way, times in ways.items():
                peaks = run["peaks"][f"{subject}, {way}"]
                memory = f"{peaks['worker'] / 1e6:,.0f}, {peaks['jvm'] / 1e6:,.0f}"
                rows.append([subject, way, _spread(times, 1000), _ratio(ways.get("native"), times), memory])
    return _rows(["reading", "way", "ms for each blob", "native / this", "worker, JVM, MB at most"], rows)


def blobs_singles(run: Run) -> str:
    """Ten values by their keys, in milliseconds, for each size of a table."""
    sizes = run["seconds"]
    ways = list(dict.fromkeys(way for found in sizes.values() for way in found))
    rows = ([way, *(_spread(found.get(way), 1000) for found in sizes.values())] for way in ways)
    return _rows(["ms", *sizes], rows)


def training(run: Run) -> str:
    """Batches a second of whole epochs, and what it takes to find the rows."""
    found = run["found"]
    batches = found["rows"] / 64
    ways = ["containers", "inline", "files"]
    rows = []
    for state, orders in found["seconds"].items():
        for order, times in orders.items():
            rates = [_spread([batches / seconds for seconds in times[way]]) for way in ways]
            rows.append([f"{state}: {order}", *rates, _ratio(times["files"], times["containers"])])
    named = ["batches/s", "containers", "INLINE", "files", "files' time / containers' time"]
    costs = "; ".join(
        f"{way} {1000 * cost['seconds']:,.0f} ms, {cost['bytes'] / found['rows']:,.0f} bytes a row"
        for way, cost in found["planning"].items()
    )
    return _rows(named, rows) + f"\n\nTo find the rows, or to list the folder, and what a spawned worker gets: {costs}."


def services_scans(run: Run) -> str:
    """References for each second and core."""
    rows = ([form, _spread(rate)] for form, rate in run["rates"].items())
    return _rows(["file", "references for each second and core"], rows)


def services_marks(run: Run) -> str:
    """Seconds of marks."""
    rows = []
    for way, times in run["seconds"]["mark"].items():
        opened, retained = run["files"][way]
        rows.append([way, _spread(times), f"{opened} of {retained}"])
    return _rows(["mark", "seconds", "files opened"], rows)


def compaction(run: Run) -> str:
    """Return the phases, and the byte phase compared with a copy."""
    rows = [[phase, _spread(times)] for phase, times in run["seconds"]["compaction"].items()]
    return _rows(["phase", "seconds"], [*rows, ["copy / byte phase, of each round", _spread(run["ratios"])]])


def erasure(run: Run) -> str:
    """Return the seconds of each step of an erasure, by what the table holds, and of the writes that it touches."""
    rows = ([subject, way, _spread(times)] for subject, ways in run["seconds"].items() for way, times in ways.items())
    return _rows(["table", "step", "seconds"], rows).replace("| --- | ---: | ---: |", "| --- | --- | ---: |")


def clustering(run: Run) -> str:
    """What a query reads by an index before and after a clustering by its vectors."""
    rows = []
    for after in (row for row in run["rows"] if row["when"] == "after"):
        same = [row for row in run["rows"] if all(row[key] == after[key] for key in ("partitions", "search"))]
        before = next(row for row in same if row["when"] == "before")
        pages, size = ([row[key] for row in (before, after)] for key in ("pages", "page_bytes"))
        rows.append(
            [
                f"{after['partitions']}, {after['search']}",
                *map(_spread, pages),
                f"{pages[0]['median'] / pages[1]['median']:.1f}×",
                *(_number(each["median"] / 1e6) for each in size),
                *(f"{row['recall']:.3f}" for row in (before, after)),
            ]
        )
    header = ["partitions, search", "pages before", "pages after", "fewer", "MB before", "MB after"]
    return _rows([*header, "recall before", "recall after"], rows)


def join(run: Run) -> str:
    """Contestants of a join, in seconds."""
    names = [label for label, found in run.items() if isinstance(found, dict) and "recall" in found]
    rows = ([name, _spread(run[name]["seconds"]), f"{run[name]['recall']:.3f}"] for name in names)
    return _rows([f"{run['left']:,} × {run['right']:,}", "seconds", "recall"], rows)


def join_ratios(run: Run) -> str:
    """What is compared."""
    return _rows(["times as long", ""], ([name, f"{ratio:.2f}"] for name, ratio in run["ratios"].items()))


def streaming(run: Run) -> str:
    """Streams: rows a second over all micro-batches, the micro-batches, recall."""
    rows = (
        [
            row["subject"],
            _number(row["rows_per_second"]),
            _spread(row["batch_seconds"]),
            "" if row["recall"] is None else f"{row['recall']:.3f}",
        ]
        for row in run["figures"]
    )
    return _rows(["vectors: way", "rows/s", "seconds of a micro-batch", "recall"], rows)


def index(run: Run) -> str:
    """What was measured of a table and its indexes, without each effort that was tried."""
    rows = []
    for row in (row for row in run["rows"] if not row["subject"].endswith("k candidates")):
        times = [_number(row[key]) for key in ("p50", "p90", "p99") if key in row]
        recall = row.get("recall", row.get("found"))
        rows.append(
            [
                row["subject"],
                "" if recall is None else f"{recall:.3f}",
                ", ".join(times),
                _spread(row.get("queries_per_second")),
                _number(row["seconds"]) if "seconds" in row else "",
                _number(row["bytes_per_vector"]) if "bytes_per_vector" in row else "",
            ]
        )
    header = ["subject", "recall", "ms: p50, p90, p99", "batch, queries/s", "made in s", "bytes a vector"]
    return _rows(header, rows)


def index_kinds(run: Run) -> str:
    """Kinds of index over the same vectors: what they cost, and what searches with a recall target find."""
    found = {row["subject"]: row for row in run["rows"]}
    kinds = [subject.removeprefix("create ") for subject in found if subject.startswith("create ")]
    rows = []
    for kind in kinds:
        made, single = found[f"create {kind}"], found[f"{kind}, recall target 0.95"]
        batch = found[f"batch of 1000, {kind}, recall target 0.95"]
        rows.append(
            [
                f"`{kind}`",
                *(_number(made[key]) for key in ("bytes_per_vector", "seconds")),
                f"{single['recall']:.3f}",
                *(_number(single[key]) for key in ("p50", "p99")),
                _spread(batch["queries_per_second"]),
            ]
        )
    return _rows(["kind", "bytes a vector", "made in s", "recall", "ms: p50", "p99", "batch, queries/s"], rows)


def hybrid(run: Run) -> str:
    """Ways to a hybrid search."""
    found = run["seconds"]["hybrid"]
    share = dict.fromkeys(found, "1.00") | {"native, two searches and a join": f"{run['native_recall']:.2f}"}
    rows = ([way, _spread(times, 1000), share[way]] for way, times in found.items())
    return _rows(["way", "ms", "share of the true rows"], rows)


def grouped(run: Run) -> str:
    """Searches for groups, next to the same search for rows and to a window function."""
    found, facts = run["seconds"], run["facts"]
    rows = [[subject, way, _spread(times, 1000)] for subject, ways in found.items() for way, times in ways.items()]
    table = _rows(["search", "wanted", "ms"], rows)
    return (
        f"{table}\n\n{facts['rows']:,} chunks of {run['size']['documents']:,} documents. Of {facts['queries']} answers "
        f"by k × 20 rows and a window {facts['wrong_answers_of_the_window']} had fewer than k documents, and "
        f"{facts['documents_missing_in_them']} documents were missing in them. The search with a recall target of 0.95 "
        f"found {facts['recall_in_groups']:.3f} of the true documents. The load of the machine was "
        f"{facts['load_before']} before the run."
    )


def paired(run: Run) -> str:
    """Ratios of searches that use a feature to plain ones, and of plain ones to those of another checkout."""
    shown = [
        [subject, f"{way}, to plain", *_ratio_with_range(found)]
        for subject, ways in run["ratios"].items()
        for way, found in ways.items()
    ]
    other = run.get("against", {"ratios": {}})
    shown += [
        [subject, f"plain, to plain of commit {other['commit'][:10]}", *_ratio_with_range(found)]
        for subject, found in other["ratios"].items()
    ]
    size, load = run["size"], run["machine"]["load_before"]
    return (
        f"{_rows(['search', 'ratio of', 'medians', 'least times'], shown)}\n\n{size['rows']:,} rows × "
        f"{size['dimension']}, k = 10, {size['rounds']} rounds. In parentheses the range over parts of the run. The "
        f"load of the machine was {load} before the run; the least times show other work the least."
    )


def _ratio_with_range(found: Mapping[str, float]) -> tuple[str, str]:
    return f"{found['ratio']:.2f} ({found['least']:.2f}–{found['largest']:.2f})", f"{found['of_least']:.2f}"


def codecs(run: Run) -> str:
    """Codecs of vectors."""
    rows = (
        [
            row["data"],
            row["codec"],
            _number(row["megabytes"]),
            _spread(row["write_seconds"]),
            _spread(row["read_seconds"]),
        ]
        for row in run["rows"]
    )
    return _rows(["vectors", "codec", "MB", "write, s", "read, s"], rows)


def scale(run: Run) -> str:
    """What each library took to write, to index and to search a table, and the memory its processes had."""
    rows = []
    for row in run["rows"]:
        rate = row.get("queries_per_second")
        rows.append(
            [
                f"{row['way']}: {row['step']}",
                f"{row['recall']:.3f}" if "recall" in row else "",
                *(_number(row[key]) if key in row else "" for key in ("p50", "p99")),
                _number(row["seconds"]) if "seconds" in row else "",
                "" if rate is None else _number(rate),
                _number(row["memory"] / 1e9) if "memory" in row else "",
            ]
        )
    return _rows(["way: step", "recall", "ms: p50", "p99", "s", "queries/s", "GB of memory"], rows)


def object_store(run: Run) -> str:
    """Steps of searches on an object store: seconds, also as a multiple of Lance's, and what was asked for."""
    medians = {(row["table"], row["step"], row["way"]): row["seconds"]["median"] for row in run["rows"]}
    lance = {"index": "Lance, IVF_PQ", "exact": "Lance, exact"}
    rows = []
    for row in run["rows"]:
        of_lance = medians[row["table"], row["step"], lance[row["kind"]]]
        rows.append(
            [
                f"{row['table']}: {row['way']}",
                row["step"],
                _spread(row["seconds"]),
                f"{row['seconds']['median'] / of_lance:.1f}×",
                *(_number(row[name]["median"]) for name in ("requests", "megabytes", "waves", "heads")),
                f"{row['recall']:.3f}",
            ]
        )
    versions = run["versions"]
    lancedb = f"LanceDB {versions['lancedb']}" if "lancedb" in versions else "LanceDB was not there"
    header = ["table: way", "step", "s", "of Lance's time", "requests", "MB", "waves", "HEADs", "recall"]
    efforts = "; ".join(f"{each['table']}, {' and '.join(map(_effort, each['efforts']))}" for each in run["tables"])
    said = f"Lance {versions['lance']}; {lancedb}. Efforts of Lance's index without a filter and with each: {efforts}."
    return f"{_rows(header, rows)}\n\n{said}"


def object_store_builds(run: Run) -> str:
    """Builds of an index on an object store: seconds, and what was asked for."""
    rows = (
        [
            f"{row['table']}: {row['way']}",
            *(_number(row[name]) for name in ("seconds", "requests", "megabytes", "waves")),
        ]
        for row in run["builds"]
    )
    return _rows(["table: way", "s", "requests", "MB", "waves"], rows)


def object_store_blobs(run: Run) -> str:
    """Steps of writes, reads and services of blobs on an object store: what was asked for, in all and by us."""
    counts = ("requests", "of_ours", "waves", "waves_of_ours", "megabytes")
    containers = ("of_containers", "waves_of_containers", "megabytes_of_containers")
    rows = (
        [row["step"], _number(row["seconds"]), *(_number(row[name]) for name in (*counts, *containers))]
        for row in run["rows"]
    )
    header = ["step", "s", "requests", "ours", "waves", "ours", "MB", "of containers", "waves of these", "MB of these"]
    return _rows(header, rows)


def _effort(effort: Mapping[str, int]) -> str:
    return f"{effort['nprobes']} lists with {effort['refine_factor']} k candidates"


TABLES: Mapping[str, Callable[[Run], str]] = {
    made.__name__: made
    for made in (
        search,
        search_ratios,
        search_session,
        search_cluster,
        search_profile,
        blobs_writing,
        blobs_reading,
        blobs_singles,
        training,
        services_scans,
        services_marks,
        compaction,
        erasure,
        clustering,
        join,
        join_ratios,
        streaming,
        index,
        index_kinds,
        hybrid,
        grouped,
        paired,
        codecs,
        scale,
        object_store,
        object_store_builds,
        object_store_blobs,
    )
}

if __name__ == "__main__":
    (ROOT / "docs" / "reference" / "options.md").write_text(options_page(), encoding="utf-8")
    (ROOT / "docs" / "reference" / "differences-from-hudi.md").write_text(differences_page(), encoding="utf-8")
    architecture = ROOT / "docs" / "explanation" / "architecture.md"
    architecture.write_text(with_rooms(architecture.read_text(encoding="utf-8")), encoding="utf-8")
    metrics = ROOT / "docs" / "how-to" / "metrics.md"
    metrics.write_text(with_metrics(metrics.read_text(encoding="utf-8")), encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
