"""Ask a real Prometheus every expression of the dashboard for Grafana, and draw a picture of the answers.

    python docs/dashboard_picture.py [--prometheus PATH] [--seconds 60]

Run by ``make dashboard``. Searches and services run on small tables in a process that serves its metrics; Prometheus
asks it once a second, and then answers the expressions of every panel. An expression that Prometheus cannot read or
that has no number ends the script, and so does a count that is not what ran. The picture carries the SHA-256 of the
dashboard, by which a test sees that it is of the present one.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import math
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
DASHBOARD = ROOT / "docs" / "how-to" / "metrics-dashboard.json"
PICTURE = ROOT / "docs" / "pictures" / "dashboard.png"

ROWS, DIMENSION, PHOTOS = 20_000, 32, 40
RATE = "10s"  # Grafana takes four times the interval between two scrapes, or more
CONFIGURATION = """
global: {{ scrape_interval: 1s, scrape_timeout: 1s }}
scrape_configs:
  - job_name: hudi-vector
    static_configs: [{{ targets: ["127.0.0.1:{port}"] }}]
"""


@dataclass(frozen=True)
class Panel:
    """A panel of the dashboard: its title, unit, place on a grid of 24 columns, and its expressions with legends."""

    title: str
    unit: str
    grid: Mapping[str, int]
    targets: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Line:
    """A series of an answer: its legend, its times in minutes since the run began, and its values."""

    name: str
    times: tuple[float, ...]
    values: tuple[float, ...]


def panels() -> list[Panel]:
    """Return the panels of the dashboard; those without a target are headings."""
    found = []
    for each in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        targets = tuple((target["expr"], target["legendFormat"]) for target in each.get("targets", ()))
        unit = each.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
        found.append(Panel(each["title"], unit, each["gridPos"], targets))
    return found


def fingerprint() -> str:
    """Return what the picture carries: the SHA-256 of the dashboard."""
    return f"sha256:{hashlib.sha256(DASHBOARD.read_bytes()).hexdigest()}"


def is_present() -> bool:
    """Return True if the picture is there and made of the present dashboard."""
    return PICTURE.exists() and fingerprint().encode() in PICTURE.read_bytes()


def filled(expression: str) -> str:
    """Return an expression as Grafana sends it when all tables are chosen."""
    return expression.replace("$table", ".*").replace("$__rate_interval", RATE)


class Prometheus:
    """A Prometheus that asks one process of this machine, and that answers expressions."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **arguments: Any) -> Any:
        """Return what its HTTP API answers; raise SystemExit with its sentence if it refuses."""
        words = urllib.parse.urlencode(arguments)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{words}") as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as problem:
            raise SystemExit(f"{json.load(problem)['error']}: {arguments.get('query', path)}") from None

    def number(self, expression: str) -> float:
        """Return the one number that an expression has now."""
        (found,) = self.ask("query", query=expression)["result"]
        return float(found["value"][1])

    def lines(self, expression: str, legend: str, begun: float, ended: float) -> list[Line]:
        """Return what an expression had in each second; raise SystemExit if it had no number."""
        query = filled(expression)
        found = []
        for series in self.ask("query_range", query=query, start=begun, end=ended, step=1)["result"]:
            pairs = [((float(at) - begun) / 60, float(value)) for at, value in series["values"]]
            labels = series["metric"]
            name = re.sub(r"\{\{(\w+)\}\}", lambda match, labels=labels: labels.get(match[1], ""), legend)
            found.append(Line(name.strip(), *zip(*pairs, strict=True)))
        if not any(math.isfinite(value) for line in found for value in line.values):
            raise SystemExit(f"Prometheus has no number for this expression: {query}")
        return found


@contextmanager
def prometheus(program: str, port: int) -> Iterator[Prometheus]:
    """Run Prometheus, which asks the metrics of a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "prometheus.yml"
        written.write_text(CONFIGURATION.format(port=port), encoding="utf-8")
        words = [f"--config.file={written}", f"--storage.tsdb.path={folder}/data"]
        listen = f"--web.listen-address=127.0.0.1:{own}"
        process = subprocess.Popen([program, *words, listen, "--log.level=error"])
        try:
            running = Prometheus(f"http://127.0.0.1:{own}")
            _until_ready(running.url)
            yield running
        finally:
            process.terminate()
            process.wait()


def _until_ready(url: str) -> None:
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"{url}/-/ready"):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("Prometheus was not ready within 10 seconds")


class Work:
    """The searches and services that the metrics are about, on three tables of a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        import numpy as np

        self.spark, self.folder = spark, folder
        self.products, self.photos, self.gone = (str(folder / name) for name in ("products", "photos", "gone"))
        self.vectors = np.random.default_rng(1).standard_normal((ROWS + 5000, DIMENSION)).astype(np.float32)
        self.storage: dict[str, str] = {}
        self.failed = self.answered = 0

    def write(self, table: str, first: int, last: int) -> None:
        """Write rows with vectors."""
        import pyarrow as pa

        import hudi_vector as hv

        vectors = pa.FixedSizeListArray.from_arrays(self.vectors[first:last].ravel(), DIMENSION)
        rows = pa.table({"id": range(first, last), "embedding": vectors})
        hv.write(rows, table, record_key="id", vectors={"embedding": DIMENSION}, operation="bulk_insert")

    def write_photos(self, count: int, taken: int) -> None:
        """Write rows with blobs; those of equal ids are replaced."""
        import hudi_vector as hv

        rows = [(f"photo {number}", taken, bytearray(b"\x89PNG" * 5000)) for number in range(count)]
        frame = self.spark.createDataFrame(rows, "id STRING, taken INT, image BINARY")
        blobs = {"image": {"inline.threshold": "0"}}
        hv.write(frame, self.photos, record_key="id", ordering="taken", blobs=blobs)

    def prepare(self) -> None:
        """Write the tables before anything is counted."""
        import hudi_vector as hv

        self.write(self.products, 0, ROWS)
        self.write(self.gone, 0, 10)
        self.write_photos(PHOTOS, 1)
        hv.index.create(self.spark, self.products, "embedding", metric="l2")

    def search(self, seconds: float) -> None:
        """Search by all ways for so long, with searches that fail between them."""
        import hudi_vector as hv
        from hudi_vector.read.cache import process_cache

        settings = {"hoodie.vector.cache.dir": str(self.folder / "cache")}
        until, number = time.monotonic() + seconds, 0
        with hv.open(self.products, column="embedding", options=settings) as t:
            while time.monotonic() < until:
                query = self.vectors[number % ROWS]
                t.search(query, k=10, metric="l2", mode="exact")
                t.search(query, k=10, metric="l2", mode="approximate", nprobes=4)
                t.search_batch(self.vectors[:4], k=10, metric="l2", mode="exact")
                self.answered += 3
                if number % 5 == 0:
                    hv.search(self.spark, self.products, "embedding", query, k=10, metric="l2").collect()
                    self.answered += 1
                if number % 3 == 0:
                    process_cache().clear()  # so that something is read again, as of a table that does not fit
                with hv.open("s3a://lake/products", column="embedding", storage_options=self.storage) as far:
                    far.search(query, k=10, metric="l2", mode="exact")
                    self.answered += 1
                if number % 7 == 0:
                    self._fail(lambda query=query: t.search(query, k=10, filter="prize < 3"))
                    self._fail(lambda query=query: t.search(query[:3], k=10))
                number += 1
                time.sleep(0.2)

    def _fail(self, ask: Any) -> None:
        import hudi_vector as hv

        try:
            ask()
        except hv.HudiVectorError:
            self.failed += 1
        else:
            raise SystemExit("a search that has to fail did not")

    def run(self, seconds: float) -> None:
        """Search, and between the searches write rows and run services, one after the other."""
        import hudi_vector as hv

        services, each = hv.table_services, seconds / 6
        self.search(each)
        self.write(self.products, ROWS, ROWS + 5000)
        hv.index.recall(None, self.products, "embedding", k=10, sample=50)
        services.maintain(self.spark, self.photos)
        self.search(each)
        self.write_photos(PHOTOS // 2, 2)
        shutil.rmtree(self.gone)
        self.search(each)
        hv.index.refresh(self.spark, self.products, "embedding")
        refused = {"hoodie.blob.clean.max.share": "1", "hoodie.blob.clean.grace": "0"}
        for key, value in {**refused, "hoodie.blob.maintain.hudi.clean": "true"}.items():
            self.spark.conf.set(key, value)
        self.spark.conf.set("hoodie.clean.commits.retained", "1")
        services.maintain(self.spark, self.photos, steps=["clean_blobs", "figures"])
        self.search(each)
        services.clean_blobs(self.spark, self.photos, max_share=100)
        hv.index.recall(None, self.products, "embedding", k=10, sample=50)
        self.search(each)
        services.maintain(self.spark, self.photos, steps=["figures"])
        self.search(each)


def answers(asked: Prometheus, begun: float, ended: float) -> dict[str, list[Line]]:
    """Return the lines of each panel, by its title."""
    return {
        panel.title: [line for expr, legend in panel.targets for line in asked.lines(expr, legend, begun, ended)]
        for panel in panels()
        if panel.targets
    }


def require_true(asked: Prometheus, work: Work) -> None:
    """Raise SystemExit if the dashboard counts other runs and failures than there were, or offers other tables."""
    expressions = {panel.title: filled(panel.targets[0][0]) for panel in panels() if panel.targets}
    shown = {
        "failed searches": asked.number(f"sum({expressions['Failed searches in an hour']})"),
        "runs": asked.number(f"sum({expressions['Runs in an hour']})"),
        "searches": asked.number("sum(hudi_vector_searches_total)"),
        "tables": sorted(place.rsplit("/", 1)[-1] for place in asked.ask("label/table/values")),
    }
    ran = {
        "failed searches": work.failed,
        "runs": asked.number("sum(hudi_vector_service_runs_total)"),
        "searches": work.answered,
        "tables": ["gone", "photos", "products", "products"],
    }
    if shown != ran:
        raise SystemExit(f"the dashboard shows {shown}, and there were {ran}")


_SCALES = {
    "bytes": (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)),
    "Bps": (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1)),
    "s": (("h", 3600), ("min", 60), ("s", 1), ("ms", 1e-3)),
    "percentunit": (("%", 0.01),),
    "reqps": ((" req/s", 1),),
    "short": (("", 1),),
}


def as_text(value: float, unit: str) -> str:
    """Return a value in a unit of Grafana's, as an axis shows it."""
    name, size = next((each for each in _SCALES[unit] if abs(value) >= each[1]), _SCALES[unit][-1])
    return f"{value / size:.3g}{' ' if name[:1].isalpha() else ''}{name}" if value else "0"


def draw(shown: Mapping[str, list[Line]], begun: float, ended: float, places: Sequence[str]) -> None:
    """Draw all panels as the dashboard places them; legends leave out the places of the tables."""
    import io

    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image, PngImagePlugin

    grid = panels()
    rows = max(panel.grid["y"] + panel.grid["h"] for panel in grid)
    figure = plt.figure(figsize=(13, rows * 0.23))
    for panel in grid:
        left, top = panel.grid["x"] / 24, 1 - panel.grid["y"] / rows
        width, height = panel.grid["w"] / 24, panel.grid["h"] / rows
        if panel.targets:
            axes = figure.add_axes((left + 0.045, top - 0.6 * height, width - 0.06, 0.47 * height))
            _draw_panel(axes, panel, shown[panel.title], places)
            axes.set_xlim(0, (ended - begun) / 60)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} min")
        else:
            figure.text(0.01, top - 0.7 * height, panel.title, fontsize=11, weight="bold")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    plt.close(figure)
    kept = PngImagePlugin.PngInfo()
    kept.add_text("Description", fingerprint())
    Image.open(drawn).convert("RGB").quantize(64).save(PICTURE, pnginfo=kept, optimize=True)


def _draw_panel(axes: Any, panel: Panel, lines: list[Line], places: Sequence[str]) -> None:
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    for line in lines:
        name = functools.reduce(lambda name, place: name.replace(f"{place}/", ""), places, line.name)
        axes.plot(line.times, line.values, label=name, linewidth=1.2)
    most = max(value for line in lines for value in line.values if math.isfinite(value))
    axes.set_ylim(0, 1.1 * most if most else 1)
    axes.set_title(panel.title, fontsize=8, loc="left")
    binary = MultipleLocator(2 ** math.ceil(math.log2(max(most, 4) / 4)))
    axes.yaxis.set_major_locator(binary if panel.unit == "bytes" else MaxNLocator(4))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(lambda value, _: as_text(value, panel.unit))
    axes.tick_params(labelsize=6, length=2)
    axes.grid(linewidth=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=6, frameon=False, loc="upper left", bbox_to_anchor=(-0.02, -0.13), ncols=2, borderpad=0)


@contextmanager
def lake(folder: Path, table: str) -> Iterator[dict[str, str]]:
    """Run a server of S3 with a copy of a table in its bucket ``lake``, and return the settings for its storage."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support import servers

    with servers.lake() as (options, client):
        for file in filter(Path.is_file, Path(table).rglob("*")):
            client.put_object(Bucket="lake", Key=str(file.relative_to(folder)), Body=file.read_bytes())
        yield dict(options.values)


def main() -> None:
    """Run everything, ask for everything, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", default=shutil.which("prometheus"), help="the program, else that of the PATH")
    parser.add_argument("--seconds", type=float, default=60, help="how long searches run")
    given = parser.parse_args()
    if given.prometheus is None:
        raise SystemExit("no prometheus is on the PATH; `apt-get install prometheus` installs it")
    import hudi_vector as hv

    with tempfile.TemporaryDirectory() as folder:
        spark = hv.session("dashboard")
        try:
            work = Work(spark, Path(folder).resolve())
            work.prepare()
            tables, named = [work.products, work.photos, work.gone], f"file://{work.folder}"
            with (
                lake(work.folder, work.products) as work.storage,
                hv.metrics.serve(0, tables=tables, every=1) as served,
                prometheus(given.prometheus, served.port) as asked,
            ):
                begun = time.time()
                work.run(given.seconds)
                time.sleep(3)  # the last counts are asked for
                ended = time.time()
                shown = answers(asked, begun, ended)
                require_true(asked, work)
        finally:
            spark.stop()
        draw(shown, begun, ended, [named])
    print(f"{sum(map(len, shown.values()))} series in {len(shown)} panels; written: {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
