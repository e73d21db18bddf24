"""Jobs in a driver of their own, which SIGKILL ends with its JVM and its Python workers at a step it was told.

A step is whatever changes storage: before and after each call of the package that does, in the driver and in Python
workers, and each file that Hudi or a stream adds to its log. All of them are counted in one file, and who takes the last
one kills everybody before anybody takes another.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import hudi_vector as hv
from support.blobs import content
from support.frames import planned
from support.quick import FEW_STATEMENTS, QUICK, bundle_file, make_hadoop_settings_few, remember_java_names

_TOLD = "HUDI_VECTOR_TESTS_KILL"
_SUPPORT = Path(__file__).parent

KIND = "id INT, ts LONG, part STRING, img BINARY, emb ARRAY<FLOAT>"
SIZES = (3000, 20, None, 5000)
BLOBS = {"img": {"inline.threshold": "1KB"}}
DIMENSION = 4
CONF = {
    **QUICK,
    "hoodie.clean.automatic": "false",
    "hoodie.blob.clean.grace": "0s",
    "hoodie.blob.clean.max.share": "100",
    "hoodie.blob.compact.live.threshold": "100",
    "hoodie.blob.maintain.cluster.order.by": "id",
}
INLINE = "hoodie.storage.blob.inline.threshold"
_RENAMED = re.compile(r"\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def size(number: int) -> int | None:
    """How many bytes the blob of a row has, None for NULL."""
    return SIZES[number % len(SIZES)]


def vector(number: int, ts: int) -> list[float]:
    """The vector of a version of a row."""
    return [float(number), float(ts), 0.5, float(number * ts % 7)]


def frame(spark: SparkSession, ids: Sequence[int], ts: int) -> DataFrame:
    """A version of some rows."""
    made = [
        (i, ts, f"p{i % 2}", None if size(i) is None else bytearray(content(i + 1000 * ts, size(i))), vector(i, ts))
        for i in ids
    ]
    return planned(spark, made, KIND).coalesce(1)


def write(spark: SparkSession, table: str, ids: Sequence[int] = range(0, 12, 3), ts: int = 9, **options: str) -> None:
    """Rows with new blobs."""
    hv.write(
        frame(spark, ids, ts), table, record_key="id", ordering="ts", partition_by="part", blobs=BLOBS,
        vectors={"emb": DIMENSION}, options={**CONF, **options},
    )  # fmt: skip


def clean(spark: SparkSession, table: str) -> None:
    """Containers that no retained version needs go to the trash."""
    assert hv.table_services.clean_blobs(spark, table).is_well


def compact(spark: SparkSession, table: str) -> None:
    """Containers with a dead byte are repacked."""
    assert hv.table_services.compact_blobs(spark, table, options=QUICK).is_well


def cluster(spark: SparkSession, table: str) -> None:
    """Rows in the order of their ids, blobs behind them, and some of them into their rows."""
    with conf(spark, {INLINE: "4KB"}):
        assert hv.table_services.cluster(spark, table, order_by="id", options=QUICK).is_well


def index(spark: SparkSession, table: str) -> None:
    """An index of the vectors."""
    hv.index.build_if_missing(spark, table, "emb", metric="l2")


def stream(spark: SparkSession, table: str) -> None:
    """A streaming search from its checkpoint, all that there is of events beside the table."""
    events, found, checkpoint = (f"{table}.{name}" for name in ("events", "found", "checkpoint"))
    source = spark.readStream.schema("number LONG, v ARRAY<FLOAT>").option("maxFilesPerTrigger", 1).parquet(events)
    rows = hv.vector_search(source, table, "emb", "v", 2, metric="l2", columns=["id"], config={"pin-snapshot": True})
    writer = rows.drop("v").writeStream.format("parquet").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start(found)
    query.awaitTermination()
    assert query.exception() is None


def model(number: int, ts: int) -> list[float]:
    """What a new model makes of a version of a row."""
    return [float(ts), float(number)]


def backfill(spark: SparkSession, table: str) -> None:
    """A new column gets its vectors, by a commit for each file group."""
    hv.vectors.add_column(spark, table, "new", 2, options=QUICK)
    hv.vectors.backfill(
        spark, table, "new", lambda rows: [model(number, ts) for number, ts in zip(rows["id"], rows["ts"], strict=True)],
        source=["id", "ts"], batch_rows=1, options=QUICK,
    )  # fmt: skip


def erase(spark: SparkSession, table: str) -> None:
    """One row, for good."""
    assert hv.table_services.erase(spark, table, "0", assume_single_writer=True).erased


JOBS: dict[str, Callable[[SparkSession, str], None]] = {
    job.__name__: job for job in (write, clean, compact, cluster, index, stream, backfill)
}

ALONE: dict[str, Callable[[SparkSession, str], None]] = {"erase": erase}
"""Jobs after which older versions cannot be read, so that they have a test apart."""


@contextlib.contextmanager
def conf(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """The session with these settings."""
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def seed() -> int:
    """What the points of CI are drawn from: the same in each run, or what `make soak` was told."""
    return int(os.environ.get("SOAK_SEED", "").strip() or 20)


def by_chance(steps: Sequence[str]) -> int:
    """How many of the steps are files that Hudi gives another name at once: the next run may not see them."""
    return sum(_RENAMED.search(step) is not None for step in steps)


def run(job: str, table: str, step: float | None, folder: Path, may_end: bool = False) -> list[str]:
    """Run a job in a driver that dies at a step, or comes to its end.

    Args:
        job: Its name.
        table: The table's base path.
        step: The step, from 1, with the fraction of a second that the driver lives on after it; None for none.
        folder: An empty folder for what the driver leaves.
        may_end: Whether the job may end before that step.

    Returns:
        The steps that were taken, in words.
    """
    folder.mkdir(parents=True)
    log, said = folder / "steps", folder / "said"
    log.touch()
    told = json.dumps({"job": job, "table": table, "step": step, "log": str(log)})
    root = _SUPPORT.parents[1]
    env = {**os.environ, _TOLD: told, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    with said.open("wb") as output:
        # A session of processes of its own: whatever it starts belongs to it, in whatever group.
        driver = subprocess.Popen(
            [sys.executable, "-m", "support.killed"],
            cwd=folder, env=env, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            code = driver.wait(300)
        finally:
            _kill(driver.pid)
            driver.wait()
    steps = log.read_text().splitlines()
    # A second after some step a short job may be over.
    may_end = may_end or (step is not None and step != int(step))
    wanted = (0,) if step is None else (0, -signal.SIGKILL) if may_end else (-signal.SIGKILL,)
    assert code in wanted, f"{job} ended with {code} after {len(steps)} steps: {said.read_text()[-3000:]}"
    return steps


class Steps:
    """The steps of all processes; who takes the last one kills all of them."""

    def __init__(self, log: str, last: float | None) -> None:
        self._log = log
        self._last, self._later = (None, 0.0) if last is None else (int(last), last % 1)

    def take(self, what: str) -> None:
        """One more step."""
        with open(self._log, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            number = len(file.readlines()) + 1
            file.write(f"{what}\n")
            file.flush()
            if number == self._last and not self._later:  # the others wait for the file meanwhile
                _kill(os.getsid(0))
        if number == self._last:
            threading.Timer(self._later, _kill, [os.getsid(0)]).start()


def arm(steps: Steps) -> None:
    """Count what this process does to storage."""
    from pyspark.sql.readwriter import DataFrameWriter

    from hudi_vector.storage import NewFile, Storage
    from hudi_vector.writing.files import Files

    for name in ("publish", "_copy", "delete", "remove_folder"):
        _count(Storage, name, steps)
    _count(Storage, "_rename", steps, is_static=True)
    _count(NewFile, "close", steps)
    _count(Files, "delete", steps)
    for name in ("save", "parquet"):
        _count(DataFrameWriter, name, steps)


def arm_worker() -> None:
    """Count what Spark's Python workers do, which know their order as the driver does."""
    told = json.loads(os.environ[_TOLD])
    arm(Steps(told["log"], told["step"]))


def _count(owner: type, name: str, steps: Steps, is_static: bool = False) -> None:
    real = getattr(owner, name)

    def call(*given: Any, **more: Any) -> Any:
        where = next((each for each in given if isinstance(each, str)), "")
        steps.take(f"before {owner.__name__}.{name} {where}")
        made = real(*given, **more)
        steps.take(f"after {owner.__name__}.{name} {where}")
        return made

    setattr(owner, name, staticmethod(call) if is_static else call)


def _watch(folders: Sequence[str], steps: Steps) -> None:
    """Each file that comes into one of these folders is a step."""
    seen = {file for folder in folders for file in _names(folder)}

    def look() -> None:
        while True:
            for folder in folders:
                for file in sorted(_names(folder) - seen):
                    seen.add(file)
                    steps.take(f"log {file}")
            time.sleep(0.001)

    threading.Thread(target=look, daemon=True).start()


def _names(folder: str) -> set[str]:
    try:
        return {f"{folder}/{name}" for name in os.listdir(folder) if not name.startswith(".")}
    except FileNotFoundError:
        return set()


def _kill(session: int) -> None:
    """End all processes of a session; none does anything between the end of the first and its own."""
    while running := _living(session, "ZXT"):
        for pid in running:
            _send(pid, signal.SIGSTOP)
        time.sleep(0.001)
    # Without a pause: who sees that another has gone is to be gone as well.
    for pid in _living(session, "ZX"):
        _send(pid, signal.SIGKILL)
    if os.getsid(0) == session:
        os.kill(os.getpid(), signal.SIGKILL)
    while _living(session, "ZX"):
        time.sleep(0.001)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _living(session: int, without: str) -> list[int]:
    """The processes of a session, without this one and those in some states."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, belongs = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
            if int(belongs) == session and pid != os.getpid() and state not in without:
                found.append(pid)
    return found


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": f"{FEW_STATEMENTS} -XX:MetaspaceSize=512m -Xms512m -Xmn256m",
        "spark.python.daemon.module": "support.killed_daemon",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **CONF,
    }
    remember_java_names()
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = hv.register(hv.configure(builder, bundle=bundle_file()).getOrCreate())
    make_hadoop_settings_few(session)
    return session


def main() -> None:
    """The driver."""
    told = json.loads(os.environ[_TOLD])
    table, steps = told["table"], Steps(told["log"], told["step"])
    spark = _session()
    arm(steps)
    streams = (".checkpoint/offsets", ".checkpoint/commits", ".found", ".found/_spark_metadata")
    _watch([f"{table}/.hoodie/timeline", *(table + name for name in streams)], steps)
    (JOBS | ALONE)[told["job"]](spark, table)
    print(len(Path(told["log"]).read_text().splitlines()), "steps")
    spark.stop()


if __name__ == "__main__":
    main()
