"""Every setting of this package, declared once.

A setting is read from the SparkSession (``SET key = value`` or ``spark.conf``), or from the mapping a
Spark-free caller passes. ``docs/options.md`` is generated from this list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    "EXECUTION",
    "GUARD_BLOBS",
    "INDEX_BATCH_MAX_QUERIES",
    "INDEX_EXTERNAL_DIR",
    "INDEX_EXTERNAL_ENABLED",
    "INDEX_READ_MAX_GAP",
    "INDEX_READ_THREADS",
    "INVALID_VECTORS",
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
    "TIMEOUT",
    "VERIFY_BLOBS",
    "Option",
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
    """The bytes that a text such as ``1MB``, ``64 MiB`` or ``1048576`` stands for.

    Args:
        text: A whole number with or without a unit (B, KB, MB, GB, TB in any case, with or without ``i``); each unit
            is 1024 times the one before it.

    Returns:
        The number of bytes, or None where the text is no size.

    Example:
        >>> parse_size("64 MiB"), parse_size("1.5MB")
        (67108864, None)
    """
    return _amount(text, _SIZES)


def parse_duration(text: str) -> int | None:
    """The milliseconds that a text such as ``24h``, ``90 min`` or ``7d`` stands for.

    Args:
        text: A whole number with its unit (ms, s, m or min, h, d); without one it counts milliseconds.

    Returns:
        The number of milliseconds, or None where the text is no duration.

    Example:
        >>> parse_duration("24h"), parse_duration("500"), parse_duration("1 week")
        (86400000, 500, None)
    """
    return _amount(text, _DURATIONS)


def parse_names(text: str) -> list[str]:
    """The names, paths or URIs in a text that has commas between them.

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
        """The value in ``conf``, or the default.

        Args:
            conf: Keys and values as text, as a SparkSession holds them.

        Returns:
            The value, in the type of the default.

        Raises:
            InvalidOptionError: The text is not a value of this setting.

        Example:
            >>> LOCAL_THREADS.read({"hoodie.vector.search.local.threads": "2"})
            2
        """
        text = conf.get(self.key)
        return self.default if text is None else self.parse(text)

    def in_session(self, spark: SparkSession, given: object = None) -> T:
        """What a caller gave, else the value in a session, else the default.

        Args:
            spark: The session.
            given: The caller's value, None where there is none.

        Returns:
            The value, in the type of the default.

        Raises:
            InvalidOptionError: It is not a value of this setting.
        """
        text = spark.conf.get(self.key, None) if given is None else str(given)
        return self.default if text is None else self.parse(text)

    def parse(self, text: str) -> T:
        """The value a text stands for.

        Args:
            text: What the user wrote.

        Returns:
            The value, in the type of the default.

        Raises:
            InvalidOptionError: The text is not a value of this setting.
        """
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
        """How a message ends that says which numbers are allowed."""
        if self.maximum is not None:
            return f", {self.minimum or 0} to {self.maximum}"
        return "" if self.minimum is None else f", {self.minimum} or more"

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
    "Threads of a search on the driver; 0 stands for the processors this process may use.",
    minimum=0,
)
CACHE_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.cache.max.bytes",
    2 << 30,
    BYTES,
    "Decoded vectors and columns kept in memory by each process, the driver and every Python worker; 0 turns it off.",
    minimum=0,
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
    "Whether searches use an index: never (`exact`), where it gives the exact answer sooner (`auto`; with a recall "
    "target below 1 also where it may miss rows), or always where there is one, whatever it may miss (`approximate`).",
    allowed=("auto", "exact", "approximate"),
)
RECALL_TARGET: Option[str] = Option(
    "hoodie.vector.search.recall.target",
    "1",
    SHARE,
    "The part of the true nearest rows an indexed search has to find on average, such as 0.95; with 1 answers are "
    "exact. Probes and candidates are taken from the calibration kept with the index, which knows searches of up to "
    "1,000 rows; where more are wanted, or nothing that was measured reached the target, answers are exact.",
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
    "The directory of indexes over files that are no Hudi table's, and of those that were made elsewhere than under "
    "their table; a shared file system where executors are on other machines. Empty for none.",
)
INDEX_EXTERNAL_ENABLED: Option[str] = Option(
    "hoodie.vector.index.external.enabled",
    "true",
    "",
    "Whether searches look into that directory.",
    allowed=("true", "false"),
)
INDEX_READ_MAX_GAP: Option[int] = Option(
    "hoodie.vector.index.read.max.gap",
    0,
    BYTES,
    "Vectors of candidates that lie no further apart in a file are read by one request; 0 stands for 4 KiB on local "
    "disk and 1 MiB on an object store.",
    minimum=0,
)
INDEX_READ_THREADS: Option[int] = Option(
    "hoodie.vector.index.read.threads",
    0,
    "threads",
    "Threads that read vectors of candidates from one file; 0 stands for 1 on local disk, where the files are read "
    "side by side already, and 16 on an object store.",
    minimum=0,
)
JOIN_TEMP_DIR: Option[str] = Option(
    "hoodie.vector.join.temp.dir",
    "",
    FOLDERS,
    "Where a KNN join writes a computed right side once, as a Lance dataset that lives as long as the application, or "
    "until it is released. Every executor has to reach it: it must be set where the master is not local. Empty for "
    "the machine's folder of temporary files.",
)
JOIN_TEMP_MAX_BYTES: Option[int] = Option(
    "hoodie.vector.join.temp.max.bytes",
    64 << 30,
    BYTES,
    "The most bytes that one such dataset may have.",
    minimum=1,
)
JOIN_PATH: Option[str] = Option(
    "hoodie.vector.join.path",
    "auto",
    "",
    "The route of a KNN join: over the slices of a Hudi table or the files of a Parquet scan (`search`), over a Lance "
    "dataset (`lance`), with an external index over files (`external`), through a temporary Lance dataset (`temp`), "
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
    "later one. Hudi 1.2 answers queries over single fields of a BLOB wrongly, and says nothing, where a table has "
    "log files and Spark reads structs in part. It costs the reading of whole structs, of all tables, where a query "
    "names only some of their fields.",
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
BLOB_INLINE_THRESHOLD: Option[int] = Option(
    "hoodie.storage.blob.inline.threshold",
    1 << 20,
    BYTES,
    "Blobs below this size are stored inside the table's data files, all others in containers beside them; "
    "at most 16 MiB, because larger blobs are never stored inline.",
    minimum=0,
)
BLOB_MAX_ELEMENT_SIZE: Option[int] = Option(
    "hoodie.storage.blob.outofline.container.maxElementSize",
    64 << 20,
    BYTES,
    "A blob larger than this gets a file of its own instead of a place in a container.",
    minimum=1,
)
BLOB_MAX_FILE_SIZE: Option[int] = Option(
    "hoodie.storage.blob.outofline.container.maxFileSize",
    256 << 20,
    BYTES,
    "A container is closed and another begun before its blobs, with the framing of its format, exceed this; "
    "the footer of Parquet and Lance comes on top.",
    minimum=1,
)
BLOB_FORMAT: Option[str] = Option(
    "hoodie.storage.blob.outofline.format",
    "raw",
    "",
    f"What a container is: {', '.join(f'{each.text} (`{each.name}`)' for each in FORMATS.values())}. "
    "In each, a blob is one range of bytes.",
    allowed=tuple(FORMATS),
)
BLOB_CHECKSUM: Option[str] = Option(
    "hoodie.storage.blob.checksum",
    "none",
    "",
    "The checksum of every blob in a container, kept beside the upload's manifest.",
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
    "Whether size and modification time of the files that references name, and that the table does not own, are kept "
    "when they are written, so that `hv.blobs.verify` finds those that changed since.",
    allowed=("true", "false"),
)
BLOB_WRITE_LEASE: Option[int] = Option(
    "hoodie.blob.write.lease",
    86_400_000,
    MILLISECONDS,
    "How long a write that its driver no longer renews may still commit; later its blobs count as orphaned.",
    minimum=1000,
)
CLEAN_GRACE: Option[int] = Option(
    "hoodie.blob.clean.grace",
    86_400_000,
    MILLISECONDS,
    "How old a blob file must be before the cleaner may take it, and by how much the clocks of writers and cleaner may "
    "differ. It must exceed the longest time from the upload of a blob to the commit that refers to it.",
    minimum=0,
)
CLEAN_EXECUTION: Option[str] = Option(
    "hoodie.blob.clean.execution",
    "auto",
    "",
    "Where the cleaner reads data files: on the driver with threads (`local`), on the executors (`distributed`), or by "
    "how much there is to read (`auto`).",
    allowed=("auto", "local", "distributed"),
)
CLEAN_LOCAL_MAX_BYTES: Option[int] = Option(
    "hoodie.blob.clean.local.max.bytes",
    16 << 30,
    BYTES,
    "With `auto`, data files that have no more bytes than this are read on the driver; of base files only references "
    "are read.",
    minimum=0,
)
CLEAN_LOCAL_MAX_FILES: Option[int] = Option(
    "hoodie.blob.clean.local.max.files",
    2000,
    "files",
    "With `auto`, no more data files than this are read on the driver.",
    minimum=0,
)
CLEAN_MAX_SHARE: Option[int] = Option(
    "hoodie.blob.clean.max.share",
    50,
    "percent",
    "The cleaner refuses to run where more than this share of the bytes in a table's blob area would go; "
    "100 turns this off.",
    minimum=0,
    maximum=100,
)
CLEAN_MAX_FILES: Option[int] = Option(
    "hoodie.blob.clean.max.files",
    10_000,
    "files",
    "How many files one run of the cleaner takes at most, the oldest first; the others wait for the next run.",
    minimum=1,
)
CLEAN_TRASH_WINDOW: Option[int] = Option(
    "hoodie.blob.clean.trash.window",
    7 * 86_400_000,
    MILLISECONDS,
    "How long files stay in the trash, from where `restore_blobs` brings them back, before the cleaner deletes them "
    "for good.",
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
    "Whether `maintain` runs Hudi's own clean before `clean_blobs`, so that what older commits alone refer to can go.",
    allowed=("true", "false"),
)
MAINTAIN_SINGLE_WRITER: Option[str] = Option(
    "hoodie.blob.maintain.assume.single.writer",
    "false",
    "",
    "Whether `maintain` may take for granted that nobody else writes to the table while `cluster` and `compact_blobs` "
    "run, which tables need that have neither an ordering field nor a lock by which their writers take turns.",
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
    "Folders outside of the blob area, with commas between them, all of whose files belong to the table that is "
    "cleaned: those that nothing needs go by the rule for containers, but for their names. Without it such files are "
    "only reported, as `managed_outside`.",
)
COMPACT_LIVE_THRESHOLD: Option[int] = Option(
    "hoodie.blob.compact.live.threshold",
    50,
    "percent",
    "Containers of whose bytes the newest snapshot refers to less than this share are repacked by `compact_blobs`; "
    "0 leaves all but small ones as they are.",
    minimum=0,
    maximum=100,
)
COMPACT_TARGET_SIZE: Option[int] = Option(
    "hoodie.blob.compact.target.size",
    256 << 20,
    BYTES,
    "The size of the containers that `compact_blobs` makes, up to the last blob. Containers of less than a quarter of "
    "it are small, and are joined where that makes fewer of them.",
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
    "Places, with commas between them, whose files references may name; every reader of blobs refuses others. The "
    "table's own folder is one of them where the reader knows the table. Without it files of any place that this "
    "process can open are read, but for a table on an object store those of this machine.",
)

ALL: tuple[Option[int] | Option[str], ...] = (
    EXECUTION,
    LOCAL_MAX_BYTES,
    LOCAL_THREADS,
    CACHE_MAX_BYTES,
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
"""How the keys of this package begin. Under them a key that is not known is misspelt, and never passed over."""

# Keys of Hudi 1.2 under these prefixes; the last one is written into the footers of its Parquet files.
_HUDIS = ("hoodie.blob.batching.lookahead.size", "hoodie.blob.batching.max.gap.bytes", "hoodie.vector.columns")
_KNOWN = frozenset(option.key for option in ALL) | frozenset(_HUDIS)
_FOLDED = frozenset(key.lower() for key in _KNOWN)
_KEY_IN_SESSION = re.compile(r"(?<![\w.])hoodie\.(?:vector|blob|storage\.blob)\.[^,\]\s]*", re.IGNORECASE)


def unknown_key(key: str, *, any_case: bool = False) -> str | None:
    """What is wrong with a key that begins as this package's do and is none of them or of Hudi's; else None."""
    if not key.lower().startswith(PREFIXES) or key in _KNOWN or (any_case and key.lower() in _FOLDED):
        return None
    hint = did_you_mean(key, _KNOWN, most=1, alike=0.8) or "'hudi-vector options' lists all settings"
    return f"'{key}' is no setting; {hint}"


def without_effect(properties: Iterable[str]) -> list[str]:
    """What to say of properties of a table that look like settings of this package, which are not read from there."""
    found = sorted(key for key in properties if key.lower().startswith(PREFIXES) and key not in _HUDIS)
    return [
        f"'{key}' has no effect as a property of a table; set it in the session"
        + (f" ({wrong})" if (wrong := unknown_key(key)) else "")
        for key in found
    ]


def require_known(keys: Iterable[str], *, any_case: bool = False) -> None:
    """Raise InvalidOptionError for the first key that begins as this package's settings do and is none.

    Args:
        keys: Keys as a caller gave them; those of others are passed over.
        any_case: Whether capitals do not matter, as where a write reads its settings of blobs.

    Raises:
        InvalidOptionError: A key is misspelt; the nearest right one is named.

    Example:
        >>> require_known(["hoodie.blob.clean.grace", "hoodie.table.name"])
    """
    for key in keys:
        wrong = unknown_key(key, any_case=any_case)
        if wrong is not None:
            raise InvalidOptionError(wrong)


def require_known_in_session(spark: SparkSession) -> None:
    """Raise InvalidOptionError where a session sets a key that begins as this package's do and is none.

    Args:
        spark: The session.

    Raises:
        InvalidOptionError: A key is misspelt; the nearest right one is named.
    """
    # One text instead of a call for each key.
    keys = str(spark._jsparkSession.sessionState().conf().settings().keySet().toString())
    for key in _KEY_IN_SESSION.findall(keys):
        wrong = unknown_key(key)
        if wrong is not None:
            raise InvalidOptionError(f"the session sets {wrong} (spark.conf.unset takes the wrong one away)")


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
"""Those a search reads."""


def markdown(listed: Sequence[Option[int] | Option[str]] = ALL) -> str:
    """A table of settings, as ``docs/options.md`` shows all of them.

    Args:
        listed: The settings.

    Returns:
        A Markdown table, one row per setting.

    Example:
        >>> markdown().startswith("| Key |")
        True
    """
    rows = ["| Key | Default | Allowed | Unit | Meaning |", "| --- | --- | --- | --- | --- |"]
    for option in listed:
        if option.allowed:
            allowed = ", ".join(f"`{value}`" for value in option.allowed)
        else:
            usual = "text" if isinstance(option.default, str) else "a whole number"
            allowed = f"{_ALLOWED.get(option.unit, usual)}{option.limits}"
        rows.append(f"| `{option.key}` | `{option.default}` | {allowed} | {option.unit} | {option.description} |")
    return "\n".join(rows) + "\n"
