"""Every setting of this package, declared once.

A setting is read from the SparkSession (``SET key = value`` or ``spark.conf``), or from the mapping a
Spark-free caller passes. ``docs/reference/options.md`` is generated from this list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from hudi_vector.container_formats import FORMATS
from hudi_vector.errors import InvalidOptionError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "ALL",
    "ALLOWED_BLOBS",
    "BATCH_BLOCK_QUERIES",
    "BATCH_COLLECT_MAX_BYTES",
    "BLOB_CHECKSUM",
    "BLOB_FORMAT",
    "BLOB_INLINE_THRESHOLD",
    "BLOB_MAX_ELEMENT_SIZE",
    "BLOB_MAX_FILE_SIZE",
    "BLOB_PATHS",
    "BLOB_PIN",
    "BLOB_WRITE_LEASE",
    "CACHE_DIR",
    "CACHE_DIR_MAX_BYTES",
    "CACHE_MAX_BYTES",
    "CLEAN_EXECUTION",
    "CLEAN_GRACE",
    "CLEAN_LOCAL_MAX_BYTES",
    "CLEAN_LOCAL_MAX_FILES",
    "CLEAN_MANAGED_ROOTS",
    "CLEAN_MAX_FILES",
    "CLEAN_MAX_SHARE",
    "CLEAN_TRASH_WINDOW",
    "COMPACT_GROUP_SIZE",
    "COMPACT_LIVE_THRESHOLD",
    "COMPACT_TARGET_SIZE",
    "DISTANCE_COLUMNS",
    "ERASED_KEYS",
    "EXECUTION",
    "GUARD_BLOBS",
    "INDEX_BATCH_MAX_QUERIES",
    "INDEX_EXTERNAL_DIR",
    "INDEX_EXTERNAL_ENABLED",
    "INDEX_READ_MAX_GAP",
    "INDEX_READ_THREADS",
    "INVALID_VECTORS",
    "IO_PARALLELISM",
    "JOIN_BROADCAST_MAX_BYTES",
    "JOIN_PATH",
    "JOIN_TEMP_DIR",
    "JOIN_TEMP_MAX_BYTES",
    "LOCAL_MAX_BYTES",
    "LOCAL_THREADS",
    "MAINTAIN_CLEAN_INTERVAL",
    "MAINTAIN_CLUSTER_INTERVAL",
    "MAINTAIN_CLUSTER_ORDER",
    "MAINTAIN_COMPACT_INTERVAL",
    "MAINTAIN_FIGURES_INTERVAL",
    "MAINTAIN_HUDI_CLEAN",
    "MAINTAIN_INDEX_INTERVAL",
    "MAINTAIN_SINGLE_WRITER",
    "MAINTAIN_STEPS",
    "MODE",
    "RECALL_TARGET",
    "SEARCH",
    "SEARCHED_COLUMNS",
    "TIMEOUT",
    "VERIFY_BLOBS",
    "Option",
    "Settings",
    "markdown",
    "parse_duration",
    "parse_names",
    "parse_size",
    "require_known",
    "require_known_in_session",
    "unknown_key",
    "without_effect",
]

T = TypeVar("T", int, str)

BYTES, FOLDER, FOLDERS, MILLISECONDS, NAMES = "bytes", "folder", "folders", "milliseconds", "names"
SHARE = "share"

# KB is 1024 bytes, as in Spark's and Hudi's own settings.
_SIZES = {"": 1, "b": 1} | {
    name: 1 << shift
    for letter, shift in (("k", 10), ("m", 20), ("g", 30), ("t", 40))
    for name in (letter, f"{letter}b", f"{letter}ib")
}
_DURATIONS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AMOUNT = re.compile(r"(\d+)\s*([a-z]*)", re.ASCII)


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as ``1MB``, ``64 MiB`` or ``1048576``.

    Args:
        text: A whole number with or without a unit (B, KB, MB, GB, TB in any case, with or without ``i``); each unit
            is 1024 times the one before it.

    Returns:
        The number of bytes, or None if the text is not a size.

    Example:
        >>> parse_size("64 MiB"), parse_size("1.5MB")
        (67108864, None)
    """
    return _amount(text, _SIZES)


def parse_duration(text: str) -> int | None:
    """Return the milliseconds of a duration such as ``24h``, ``90 min`` or ``7d``.

    Args:
        text: A whole number with its unit (ms, s, m or min, h, d); without one it counts milliseconds.

    Returns:
        The number of milliseconds, or None if the text is not a duration.

    Example:
        >>> parse_duration("24h"), parse_duration("500"), parse_duration("1 week")
        (86400000, 500, None)
    """
    return _amount(text, _DURATIONS)


def parse_names(text: str) -> list[str]:
    """Return the names, paths or URIs in a text that separates them by commas.

    Example:
        >>> parse_names("a, b,")
        ['a', 'b']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def _amount(text: str, units: Mapping[str, int]) -> int | None:
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None or found[2] not in units:
        return None
    return int(found[1]) * units[found[2]]


@dataclass(frozen=True, repr=False)
class Settings:
    """The settings of a service that runs without a SparkSession, given in place of the session.

    Attributes:
        values: Settings of this package (``hoodie.…``) and of Hadoop's storage (``fs.…``), as keys and texts.

    Raises:
        InvalidOptionError: A key of this package is misspelt, or the number of requests at once is not allowed.

    Example:
        >>> CLEAN_GRACE.in_session(Settings({"hoodie.blob.clean.grace": "2h"}))
        7200000
    """

    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_known(self.values)
        IO_PARALLELISM.read(self.values)  # storage is opened with it

    def __repr__(self) -> str:
        return f"Settings({', '.join(key + '=***' for key in sorted(self.values))})"


@dataclass(frozen=True)
class Option(Generic[T]):
    """One setting: its key, type, default, unit, allowed values and meaning."""

    key: str
    default: T
    unit: str
    description: str
    allowed: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None

    def read(self, conf: Mapping[str, str]) -> T:
        """Return the value in a session's settings, or the default; raise InvalidOptionError if it is not allowed.

        Example:
            >>> LOCAL_THREADS.read({"hoodie.vector.search.local.threads": "2"})
            2
        """
        text = conf.get(self.key)
        return self.default if text is None else self.parse(text)

    def in_session(self, spark: SparkSession | Settings, given: object = None) -> T:
        """Return the caller's value, else the value in a session, else the default.

        `spark` may be the settings of a service that runs without a session. Raises InvalidOptionError if the value is
        not allowed.
        """
        if given is not None:
            return self.parse(str(given))
        if isinstance(spark, Settings):
            return self.read(spark.values)
        text = spark.conf.get(self.key, None)
        return self.default if text is None else self.parse(text)

    def parse(self, text: str) -> T:
        """Return the value of a text, in the type of the default; raise InvalidOptionError if it is not allowed."""
        if isinstance(self.default, int):
            number = self._number(text)
            if number is None or not self._is_within(number):
                raise InvalidOptionError(f"{self.key} = {text!r} is not allowed: give {self._numbers()}{self.limits}")
            return number
        if not self.allowed:
            return text.strip()
        value = text.strip().lower()
        if value not in self.allowed:
            raise InvalidOptionError(f"{self.key} = {text!r} is not allowed: give one of {', '.join(self.allowed)}")
        return value

    @property
    def limits(self) -> str:
        """Return the allowed range of numbers as the end of a sentence, "" without one."""
        if self.maximum is not None:
            return f", {self.minimum or 0} to {self.maximum}"
        return "" if self.minimum is None else f", {self.minimum} or more"

    @property
    def values(self) -> str:
        """Return the allowed values, in Markdown."""
        if self.allowed:
            return ", ".join(f"`{value}`" for value in self.allowed)
        usual = "text" if isinstance(self.default, str) else "a whole number"
        return f"{_ALLOWED.get(self.unit, usual)}{self.limits}"

    def _is_within(self, number: int) -> bool:
        low = self.minimum is None or number >= self.minimum
        return low and (self.maximum is None or number <= self.maximum)

    def _number(self, text: str) -> int | None:
        if self.unit == BYTES:
            return parse_size(text)
        if self.unit == MILLISECONDS:
            return parse_duration(text)
        try:
            return int(text.strip())
        except ValueError:
            return None

    def _numbers(self) -> str:
        if self.unit == BYTES:
            return "a whole number of bytes, or one with a unit such as 512KB, 64 MiB or 1GB"
        if self.unit == MILLISECONDS:
            return "a whole number of milliseconds, or one with a unit such as 90s, 30min, 24h or 7d"
        return f"a whole number of {self.unit}"


EXECUTION: Option[str] = Option(
    "hoodie.vector.search.execution",
    "auto",
    "",
    "Where a search runs: on the driver with threads (`local`), on the executors as one stage "
    "(`distributed`), or by the bytes it reads (`auto`).",
    allowed=("auto", "local", "distributed"),
)
LOCAL_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.search.local.max.bytes",
    2 << 30,
    BYTES,
    "With `auto`, a search that reads no more than this runs on the driver.",
    minimum=0,
)
LOCAL_THREADS: Option[int] = Option(
    "hoodie.vector.search.local.threads",
    0,
    "threads",
    "Threads of a search on the driver; 0 means one for each processor that this process may use.",
    minimum=0,
)
IO_PARALLELISM: Option[int] = Option(
    "hoodie.vector.io.parallelism",
    64,
    "requests",
    "Requests that a process (the driver, or a Python worker of Spark) sends to an object store at once: while one "
    "waits for its first byte, the others do too.",
    minimum=1,
)
CACHE_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.cache.max.bytes",
    2 << 30,
    BYTES,
    "Decoded vectors and columns kept in memory by each process, the driver and every Python worker, which keeps no "
    "more than its part of the executor's memory; 0 turns it off.",
    minimum=0,
)
CACHE_DIR: Option[str] = Option(
    "hoodie.vector.cache.dir",
    "",
    FOLDER,
    "A folder on a local disk of each host, in which all processes of a user there keep what they read: ranges of "
    "objects on S3, and decoded vectors of base files. What lies there is as secret as the tables. Without this "
    "setting nothing is kept on disk.",
)
CACHE_DIR_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.cache.dir.max.bytes",
    10 << 30,
    BYTES,
    "What the cache on disk may hold; the least recently used leaves first.",
    minimum=1,
)
BATCH_BLOCK_QUERIES: Option[int] = Option(
    "hoodie.vector.search.batch.block.queries",
    1024,
    "queries",
    "Query vectors scored together against a block of rows.",
    minimum=1,
)
BATCH_COLLECT_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.search.batch.collect.max.bytes",
    32 << 20,
    BYTES,
    "A larger query set is searched where its partitions are, instead of being brought to the driver and sent to every "
    "task. Its size is Spark's estimate; where that is larger and the query set has no shuffle, its rows are counted, "
    "up to as many as fit.",
    minimum=0,
)
DISTANCE_COLUMNS: Option[str] = Option(
    "hoodie.vector.search.distance.columns",
    "both",
    "",
    "Which columns of the distance `SELECT *` of the SQL functions `hudi_vector_search` and `hudi_vector_search_batch` "
    "shows: `_distance`, `_hudi_distance` (what Hudi 1.2 calls it), or both. The other can still be named. The Python "
    "functions always show `_distance` alone.",
    allowed=("both", "_distance", "_hudi_distance"),
)
MODE: Option[str] = Option(
    "hoodie.vector.search.mode",
    "auto",
    "",
    "Whether searches use an index: never (`exact`), if it gives the exact answer faster (`auto`; with a recall "
    "target below 1 also if it may miss rows), or always if there is one, even if it misses rows (`approximate`).",
    allowed=("auto", "exact", "approximate"),
)
RECALL_TARGET: Option[str] = Option(
    "hoodie.vector.search.recall.target",
    "1",
    SHARE,
    "The part of the true nearest rows an indexed search has to find on average, such as 0.95; with 1 answers are "
    "exact. Probes and candidates are taken from the calibration stored with the index, which covers searches of up to "
    "1,000 rows; if more rows are wanted, or no measured setting reached the target, answers are exact.",
)
TIMEOUT: Option[int] = Option(
    "hoodie.vector.search.timeout",
    0,
    MILLISECONDS,
    "How long one search may take, from its plan to its rows, before it ends with an error that says how far it got; 0 "
    "for no limit. In joins and streams it holds for each batch of rows that asks together. A join by the route "
    "`crossjoin` is Spark's own and has no limit.",
    minimum=0,
)
INDEX_BATCH_MAX_QUERIES: Option[int] = Option(
    "hoodie.vector.index.exact.max.queries",
    16,
    "queries",
    "With `auto` and without a recall target, a batch of more queries than this is answered by an exact scan, "
    "which reads every vector once for all of them, instead of by the index, which reads the candidates of each.",
    minimum=0,
)
INDEX_EXTERNAL_DIR: Option[str] = Option(
    "hoodie.vector.index.external.dir",
    "",
    FOLDER,
    "The directory of indexes over files that belong to no Hudi table, and of indexes that were made outside their "
    "table's folder; on a shared file system if executors are on other machines. Empty for none.",
)
INDEX_EXTERNAL_ENABLED: Option[str] = Option(
    "hoodie.vector.index.external.enabled",
    "true",
    "",
    "Whether searches look for indexes in `hoodie.vector.index.external.dir`.",
    allowed=("true", "false"),
)
INDEX_READ_MAX_GAP: Option[int] = Option(
    "hoodie.vector.index.read.max.gap",
    0,
    BYTES,
    "Vectors of candidates that are no further apart in a file are read by one request; 0 means 4 KiB on local "
    "disk and 256 KiB on an object store.",
    minimum=0,
)
INDEX_READ_THREADS: Option[int] = Option(
    "hoodie.vector.index.read.threads",
    0,
    "threads",
    "Threads that read vectors of candidates from one file; 0 means 1 on local disk, where several files are read "
    "at once already, and on an object store as many as hoodie.vector.io.parallelism allows.",
    minimum=0,
)
JOIN_TEMP_DIR: Option[str] = Option(
    "hoodie.vector.join.temp.dir",
    "",
    FOLDERS,
    "Where a KNN join writes a computed right side once, as Parquet files that live as long as the application, or "
    "until they are released. Every executor has to reach it: it must be set where the master is not local. Empty for "
    "the machine's folder of temporary files.",
)
JOIN_TEMP_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.join.temp.max.bytes",
    64 << 30,
    BYTES,
    "The largest size of the temporary files of one right side (`hoodie.vector.join.temp.dir`).",
    minimum=1,
)
JOIN_PATH: Option[str] = Option(
    "hoodie.vector.join.path",
    "auto",
    "",
    "The route of a KNN join: over the slices of a Hudi table or the files of a Parquet scan (`search`), over a Lance "
    "dataset (`lance`), with an external index over files (`external`), through temporary Parquet files (`temp`), "
    "with the right side in the memory of every process (`broadcast`), by Spark's comparison of all pairs "
    "(`crossjoin`), or by the rule that `hv.explain(hv.knn_join, …)` prints (`auto`).",
    allowed=("auto", "search", "lance", "external", "temp", "broadcast", "crossjoin"),
)
JOIN_BROADCAST_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.join.broadcast.max.bytes",
    64 << 20,
    BYTES,
    "A computed right side of a KNN join that is no larger is collected once and held by every process.",
    minimum=0,
)
GUARD_BLOBS: Option[str] = Option(
    "hoodie.blob.guard.fields",
    "true",
    "",
    "Whether `register` sets `spark.sql.optimizer.nestedSchemaPruning.enabled` to false in the session and in every "
    "later one. Without this, Hudi 1.2 answers queries over single fields of a BLOB wrongly, and without an error, "
    "if the table has log files. The price: a query over some fields of a struct reads the whole struct, in all "
    "tables.",
    allowed=("true", "false"),
)
INVALID_VECTORS: Option[str] = Option(
    "hoodie.vector.invalid",
    "fail",
    "",
    "What a write does with a vector of the wrong length or with NULL, NaN or infinite elements: refuse the write "
    "(`fail`), leave the row out (`skip`), or store NULL in its place (`null`).",
    allowed=("fail", "skip", "null"),
)
ERASED_KEYS: Option[str] = Option(
    "hoodie.vector.erased.keys",
    "off",
    "",
    "What `hv.write` does with rows whose record keys `erase` erased from the table: nothing (`off`), leave them out "
    "(`drop`), or refuse the write (`fail`). The last two read the key columns of the rows once more.",
    allowed=("off", "drop", "fail"),
)
BLOB_INLINE_THRESHOLD: Option[int] = Option(
    "hoodie.storage.blob.inline.threshold",
    1 << 20,
    BYTES,
    "Blobs below this size are stored inside the table's data files, all others in containers; "
    "at most 16 MiB, because larger blobs are never stored inline.",
    minimum=0,
)
BLOB_MAX_ELEMENT_SIZE: Option[int] = Option(
    "hoodie.storage.blob.outofline.container.maxElementSize",
    64 << 20,
    BYTES,
    "A blob larger than this is stored alone in a file instead of in a container.",
    minimum=1,
)
BLOB_MAX_FILE_SIZE: Option[int] = Option(
    "hoodie.storage.blob.outofline.container.maxFileSize",
    256 << 20,
    BYTES,
    "A container is closed, and the next one begun, before its blobs, with the framing of its format, exceed this; "
    "the footer of Parquet and Lance is not counted.",
    minimum=1,
)
BLOB_FORMAT: Option[str] = Option(
    "hoodie.storage.blob.outofline.format",
    "raw",
    "",
    f"The format of containers: {', '.join(f'{each.text} (`{each.name}`)' for each in FORMATS.values())}. "
    "In each, a blob is one range of bytes.",
    allowed=tuple(FORMATS),
)
BLOB_CHECKSUM: Option[str] = Option(
    "hoodie.storage.blob.checksum",
    "none",
    "",
    "The checksum of every blob in a container, stored next to the upload's manifest.",
    allowed=("none", "crc32", "sha256"),
)
BLOB_PATHS: Option[str] = Option(
    "hoodie.storage.blob.paths",
    "absolute",
    "",
    "How references to containers are stored: as URIs that every reader understands (`absolute`), or from the table's "
    "own folder (`relative`), which survives a move of the table and which only this package reads.",
    allowed=("absolute", "relative"),
)
BLOB_PIN: Option[str] = Option(
    "hoodie.storage.blob.external.pin",
    "true",
    "",
    "Whether a write stores size and modification time of the files that references name and the table does not own, "
    "so that `hv.blobs.verify` finds those that changed since.",
    allowed=("true", "false"),
)
BLOB_WRITE_LEASE: Option[int] = Option(
    "hoodie.blob.write.lease",
    86_400_000,
    MILLISECONDS,
    "The time for which a write may still commit after its driver last renewed it; later its blobs count as orphaned.",
    minimum=1000,
)
CLEAN_GRACE: Option[int] = Option(
    "hoodie.blob.clean.grace",
    86_400_000,
    MILLISECONDS,
    "The age a blob file must have before the cleaner may move it, which is also the largest difference between the "
    "clocks of writers and cleaner. It must exceed the longest time from the upload of a blob to the commit that "
    "refers to it.",
    minimum=0,
)
CLEAN_EXECUTION: Option[str] = Option(
    "hoodie.blob.clean.execution",
    "auto",
    "",
    "Where the cleaner reads data files: on the driver with threads (`local`), on the executors (`distributed`), or by "
    "their number and size (`auto`).",
    allowed=("auto", "local", "distributed"),
)
CLEAN_LOCAL_MAX_BYTES: Option[int] = Option(
    "hoodie.blob.clean.local.max.bytes",
    16 << 30,
    BYTES,
    "With `auto`, data files of at most this many bytes together are read on the driver; of base files only references "
    "are read.",
    minimum=0,
)
CLEAN_LOCAL_MAX_FILES: Option[int] = Option(
    "hoodie.blob.clean.local.max.files",
    2000,
    "files",
    "With `auto`, at most this many data files are read on the driver.",
    minimum=0,
)
CLEAN_MAX_SHARE: Option[int] = Option(
    "hoodie.blob.clean.max.share",
    50,
    "percent",
    "The cleaner refuses to run if it would move more than this share of the bytes in a table's blob area; "
    "100 turns this off.",
    minimum=0,
    maximum=100,
)
CLEAN_MAX_FILES: Option[int] = Option(
    "hoodie.blob.clean.max.files",
    10_000,
    "files",
    "The largest number of files that one run of the cleaner moves, the oldest first; the others wait for the next "
    "run.",
    minimum=1,
)
CLEAN_TRASH_WINDOW: Option[int] = Option(
    "hoodie.blob.clean.trash.window",
    7 * 86_400_000,
    MILLISECONDS,
    "The time for which files stay in the trash, from where `restore_blobs` brings them back, before the cleaner "
    "deletes them permanently.",
    minimum=0,
)
MAINTAIN_STEPS: Option[str] = Option(
    "hoodie.blob.maintain.steps",
    "compact_blobs,clean_blobs,index,figures",
    NAMES,
    "The steps that `maintain` runs when they are due; `cluster`, which rewrites the table's rows, may be among them.",
)
MAINTAIN_CLUSTER_INTERVAL: Option[int] = Option(
    "hoodie.blob.maintain.cluster.interval",
    7 * 86_400_000,
    MILLISECONDS,
    "How often `maintain` runs `cluster`, if that is among its steps; 0 lets every run do it.",
    minimum=0,
)
MAINTAIN_CLUSTER_ORDER: Option[str] = Option(
    "hoodie.blob.maintain.cluster.order.by",
    "",
    NAMES,
    "The columns by which `cluster` orders rows when `maintain` runs it.",
)
MAINTAIN_HUDI_CLEAN: Option[str] = Option(
    "hoodie.blob.maintain.hudi.clean",
    "false",
    "",
    "Whether `maintain` runs Hudi's own clean before `clean_blobs`, so that blobs that only older commits refer to can "
    "be removed.",
    allowed=("true", "false"),
)
MAINTAIN_SINGLE_WRITER: Option[str] = Option(
    "hoodie.blob.maintain.assume.single.writer",
    "false",
    "",
    "Whether `maintain` may assume that no other writer commits to the table while `cluster` and `compact_blobs` run. "
    "Tables without an ordering field and without a lock for their writers need it.",
    allowed=("true", "false"),
)
MAINTAIN_COMPACT_INTERVAL: Option[int] = Option(
    "hoodie.blob.maintain.compact.interval",
    86_400_000,
    MILLISECONDS,
    "How often `maintain` runs `compact_blobs`; 0 lets every run do it.",
    minimum=0,
)
MAINTAIN_CLEAN_INTERVAL: Option[int] = Option(
    "hoodie.blob.maintain.clean.interval",
    86_400_000,
    MILLISECONDS,
    "How often `maintain` runs `clean_blobs`; 0 lets every run do it.",
    minimum=0,
)
MAINTAIN_INDEX_INTERVAL: Option[int] = Option(
    "hoodie.blob.maintain.index.interval",
    3_600_000,
    MILLISECONDS,
    "How often `maintain` brings the table's vector indexes up to date; 0 lets every run do it.",
    minimum=0,
)
MAINTAIN_FIGURES_INTERVAL: Option[int] = Option(
    "hoodie.blob.maintain.figures.interval",
    86_400_000,
    MILLISECONDS,
    "How often `maintain` counts a table's blobs for its report; 0 lets every run do it.",
    minimum=0,
)
CLEAN_MANAGED_ROOTS: Option[str] = Option(
    "hoodie.blob.clean.managed.roots",
    "",
    FOLDERS,
    "Folders outside the blob area, separated by commas, all of whose files belong to the table that is cleaned: files "
    "that nothing needs are removed by the rule for containers, whatever their names. Without this setting such files "
    "are only reported, as `managed_outside`.",
)
COMPACT_LIVE_THRESHOLD: Option[int] = Option(
    "hoodie.blob.compact.live.threshold",
    50,
    "percent",
    "`compact_blobs` repacks a container if the newest snapshot refers to less than this share of its bytes; 0 leaves "
    "all but small containers as they are.",
    minimum=0,
    maximum=100,
)
COMPACT_TARGET_SIZE: Option[int] = Option(
    "hoodie.blob.compact.target.size",
    256 << 20,
    BYTES,
    "The size of the containers that `compact_blobs` makes, up to the last blob. Containers of less than a quarter of "
    "it are small, and are joined if that makes fewer of them.",
    minimum=1,
)
COMPACT_GROUP_SIZE: Option[int] = Option(
    "hoodie.blob.compact.group.size",
    16 << 30,
    BYTES,
    "`compact_blobs` repacks at most this many bytes, or one container, before it commits.",
    minimum=1,
)
VERIFY_BLOBS: Option[str] = Option(
    "hoodie.blob.read.verify",
    "false",
    "",
    "Whether `read_blob`, `try_read_blob` and `hv.read_blobs` compare the bytes of whole blobs with the checksums kept "
    "when they were written (`hoodie.storage.blob.checksum`).",
    allowed=("true", "false"),
)

ALLOWED_BLOBS: Option[str] = Option(
    "hoodie.blob.read.allowed",
    "",
    FOLDERS,
    "The places, separated by commas, whose files references may name; every reader of blobs refuses others. The "
    "table's own folder is always allowed if the reader knows the table. Without this setting every file that this "
    "process can open is read, except local files for a table on an object store.",
)

ALL: tuple[Option[int] | Option[str], ...] = (
    EXECUTION,
    LOCAL_MAX_BYTES,
    LOCAL_THREADS,
    IO_PARALLELISM,
    CACHE_MAX_BYTES,
    CACHE_DIR,
    CACHE_DIR_MAX_BYTES,
    BATCH_BLOCK_QUERIES,
    BATCH_COLLECT_MAX_BYTES,
    DISTANCE_COLUMNS,
    MODE,
    RECALL_TARGET,
    TIMEOUT,
    INDEX_BATCH_MAX_QUERIES,
    INDEX_EXTERNAL_DIR,
    INDEX_EXTERNAL_ENABLED,
    INDEX_READ_MAX_GAP,
    INDEX_READ_THREADS,
    JOIN_TEMP_DIR,
    JOIN_TEMP_MAX_BYTES,
    JOIN_PATH,
    JOIN_BROADCAST_MAX_BYTES,
    INVALID_VECTORS,
    ERASED_KEYS,
    BLOB_INLINE_THRESHOLD,
    BLOB_MAX_ELEMENT_SIZE,
    BLOB_MAX_FILE_SIZE,
    BLOB_FORMAT,
    BLOB_CHECKSUM,
    BLOB_PATHS,
    BLOB_PIN,
    BLOB_WRITE_LEASE,
    CLEAN_GRACE,
    CLEAN_EXECUTION,
    CLEAN_LOCAL_MAX_BYTES,
    CLEAN_LOCAL_MAX_FILES,
    CLEAN_MAX_SHARE,
    CLEAN_MAX_FILES,
    CLEAN_TRASH_WINDOW,
    MAINTAIN_STEPS,
    MAINTAIN_CLUSTER_INTERVAL,
    MAINTAIN_CLUSTER_ORDER,
    MAINTAIN_HUDI_CLEAN,
    MAINTAIN_SINGLE_WRITER,
    MAINTAIN_COMPACT_INTERVAL,
    MAINTAIN_CLEAN_INTERVAL,
    MAINTAIN_INDEX_INTERVAL,
    MAINTAIN_FIGURES_INTERVAL,
    CLEAN_MANAGED_ROOTS,
    COMPACT_LIVE_THRESHOLD,
    COMPACT_TARGET_SIZE,
    COMPACT_GROUP_SIZE,
    GUARD_BLOBS,
    VERIFY_BLOBS,
    ALLOWED_BLOBS,
)

PREFIXES = ("hoodie.vector.", "hoodie.blob.", "hoodie.storage.blob.")
"""The prefixes of this package's keys. An unknown key with one of them is misspelt, and is always refused."""

SEARCHED_COLUMNS = "hoodie.vector.searched.columns"
"""The property of a table, written by ``hv.vectors``, that says which column is searched where none is named."""

# Keys of Hudi 1.2 under these prefixes; the last one is written into the footers of its Parquet files.
_HUDIS = ("hoodie.blob.batching.lookahead.size", "hoodie.blob.batching.max.gap.bytes", "hoodie.vector.columns")
_KNOWN = frozenset(option.key for option in ALL) | frozenset(_HUDIS)
_FOLDED = frozenset(key.lower() for key in _KNOWN)


def unknown_key(key: str, *, any_case: bool = False) -> str | None:
    """Return the error of a key that has a prefix of this package and is no key of it or of Hudi; None for others."""
    if not key.lower().startswith(PREFIXES) or key in _KNOWN or (any_case and key.lower() in _FOLDED):
        return None
    hint = did_you_mean(key, _KNOWN, most=1, alike=0.8) or "'hudi-vector options' lists all settings"
    return f"'{key}' is no setting; {hint}"


def without_effect(properties: Iterable[str]) -> list[str]:
    """Return a sentence for each property of a table that is named like a setting of this package, without effect."""
    found = sorted(
        key for key in properties if key.lower().startswith(PREFIXES) and key not in (*_HUDIS, SEARCHED_COLUMNS)
    )
    return [
        f"'{key}' has no effect as a property of a table; set it in the session"
        + (f" ({wrong})" if (wrong := unknown_key(key)) else "")
        for key in found
    ]


def require_known(keys: Iterable[str], *, any_case: bool = False) -> None:
    """Raise InvalidOptionError for the first unknown key with a prefix of this package, naming the nearest known one.

    `any_case` ignores case, as a write does when it reads its settings of blobs.

    Example:
        >>> require_known(["hoodie.blob.clean.grace", "hoodie.table.name"])
    """
    for key in keys:
        wrong = unknown_key(key, any_case=any_case)
        if wrong is not None:
            raise InvalidOptionError(wrong)


def require_known_in_session(settings: Mapping[str, str]) -> None:
    """Raise InvalidOptionError if a session, of these settings sets an unknown key with a prefix of this package."""
    for key in settings:
        wrong = unknown_key(key)
        if wrong is not None:
            raise InvalidOptionError(f"the session sets {wrong} (remove it with spark.conf.unset)")


_ALLOWED = {
    FOLDER: "a path or URI",
    FOLDERS: "paths or URIs",
    NAMES: "names with commas between them",
    BYTES: "a whole number, or a size such as `64MB`",
    MILLISECONDS: "a whole number, or a duration such as `24h`",
    SHARE: "a number above 0, up to 1",
}

SEARCH: tuple[Option[int] | Option[str], ...] = tuple(
    option for option in ALL if option.key.startswith("hoodie.vector.")
)
"""The settings that a search reads."""


def markdown(listed: Sequence[Option[int] | Option[str]] = ALL) -> str:
    """Return a table of settings in Markdown, one row per setting, as in ``docs/reference/options.md``.

    Example:
        >>> markdown().startswith("| Key |")
        True
    """
    rows = ["| Key | Default | Allowed | Unit | Meaning |", "| --- | --- | --- | --- | --- |"]
    rows += [
        f"| `{option.key}` | `{option.default}` | {option.values} | {option.unit} | {option.description} |"
        for option in listed
    ]
    return "\n".join(rows) + "\n"
