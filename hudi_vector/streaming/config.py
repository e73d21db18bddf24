"""The configuration of a streaming search: the keys of Flink's FLIP, and further keys for Hudi tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hudi_vector import options
from hudi_vector.errors import InvalidOptionError, InvalidTypeError, kind_of
from hudi_vector.options import BYTES, MILLISECONDS, Option

__all__ = ["FAIL", "KEYS", "NEAREST", "NONE", "PREFIX", "StreamConfig"]

PREFIX = "table.exec.async-vector-search."
"""The prefix of keys in the session; they apply where the call does not set the key."""

FIXED, EXPONENTIAL = "fixed_delay", "exponential_delay"
ORDERED, UNORDERED = "ordered", "allow_unordered"
FAIL, NEAREST, NONE = "fail", "nearest", "none"
_SWITCH = ("true", "false")

_ASYNC: Option[str] = Option(
    "async", "false", "", "Whether the rows of a task are searched by several threads.", allowed=_SWITCH
)
_CONCURRENT: Option[int] = Option(
    "max-concurrent-operations", 10, "operations", "With `async`, searches of one task at the same time.", minimum=1
)
_TIMEOUT: Option[int] = Option(
    "timeout",
    180_000,
    MILLISECONDS,
    "How long one search may take, retries included; then the task fails and names the row.",
    minimum=1,
)
_STRATEGY: Option[str] = Option(
    "retry-strategy",
    FIXED,
    "",
    "Whether every pause before another attempt is as long as the first, or twice as long as the one before.",
    allowed=(FIXED, EXPONENTIAL),
)
_DELAY: Option[int] = Option("retry-delay", 100, MILLISECONDS, "The first pause before another attempt.", minimum=0)
_ATTEMPTS: Option[int] = Option(
    "max-attempts", 3, "attempts", "Attempts at a search whose storage fails, the first one included.", minimum=1
)
_OUTPUT: Option[str] = Option(
    "output-mode",
    ORDERED,
    "",
    "With `async`, whether rows leave a task in the order they came in, or as soon as they are found.",
    allowed=(ORDERED, UNORDERED),
)
_REFRESH: Option[int] = Option(
    "refresh-interval", 1000, MILLISECONDS, "For how long a stream looks for no newer commits of the table.", minimum=0
)
_CACHE: Option[int] = Option(
    "cache-memory",
    options.CACHE_MAX_BYTES.default,
    BYTES,
    "Decoded vectors, columns and index codes kept by each Python worker of the executors; "
    f"`{options.CACHE_MAX_BYTES.key}` of the session where it is not set.",
    minimum=0,
)
_UNAVAILABLE: Option[str] = Option(
    "unavailable-snapshot",
    FAIL,
    "",
    "With `on_time`, what becomes of a row whose snapshot was cleaned away: the query fails, the row is answered from "
    "the nearest later snapshot that is there, or it has no match.",
    allowed=(FAIL, NEAREST, NONE),
)
_PIN: Option[str] = Option(
    "pin-snapshot",
    "false",
    "",
    "Whether each micro-batch notes its snapshot next to the checkpoint, so that it is searched at the same one again "
    "when it is run again.",
    allowed=_SWITCH,
)
_SNAPSHOT: Option[str] = Option(
    "snapshot-column",
    "",
    "",
    "The name of a further column that says which snapshot a row was answered from: the completion time of the newest "
    "commit in it, as 17 digits.",
)

KEYS: tuple[Option[Any], ...] = (
    _ASYNC, _CONCURRENT, _TIMEOUT, _STRATEGY, _DELAY, _ATTEMPTS, _OUTPUT, _REFRESH, _CACHE, _UNAVAILABLE, _PIN,
    _SNAPSHOT,
)  # fmt: skip
"""All keys, each with its default and meaning."""

_ALIASES = {"fixed-delay": _DELAY.key}


@dataclass(frozen=True)
class StreamConfig:
    """A checked configuration; times are in seconds, `cache_memory` in bytes."""

    is_async: bool = False
    concurrent: int = 10
    timeout: float = 180.0
    grows: bool = False
    delay: float = 0.1
    attempts: int = 3
    ordered: bool = True
    refresh: float = 1.0
    cache_memory: int = options.CACHE_MAX_BYTES.default
    unavailable: str = FAIL
    pins: bool = False
    snapshot_column: str = ""

    @classmethod
    def of(cls, given: Any, session: Mapping[str, str]) -> StreamConfig:
        """Check a configuration of the call and of the session.

        `given` are the keys and values of the call; keys in any case, with or without `PREFIX`. `session` are the
        session's settings, as text. Raises InvalidTypeError if `given` is not a mapping, and InvalidOptionError if a
        key is unknown or given twice, or a value is not allowed.

        Example:
            >>> StreamConfig.of({"timeout": "30 s"}, {"table.exec.async-vector-search.max-attempts": "5"}).attempts
            5
        """
        values = _from_session(session) | _given(given)
        conf = {key: _text(value) for key, value in values.items()}
        return cls(
            is_async=_ASYNC.read(conf) == "true",
            concurrent=_CONCURRENT.read(conf),
            timeout=_TIMEOUT.read(conf) / 1000,
            grows=_STRATEGY.read(conf) == EXPONENTIAL,
            delay=_DELAY.read(conf) / 1000,
            attempts=_ATTEMPTS.read(conf),
            ordered=_OUTPUT.read(conf) == ORDERED,
            refresh=_REFRESH.read(conf) / 1000,
            cache_memory=_CACHE.read(conf) if _CACHE.key in conf else options.CACHE_MAX_BYTES.read(session),
            unavailable=_UNAVAILABLE.read(conf),
            pins=_PIN.read(conf) == "true",
            snapshot_column=_SNAPSHOT.read(conf),
        )


def _given(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"config must be a mapping of keys to values, not {kind_of(given)}")
    known = {option.key for option in KEYS}
    values: dict[str, Any] = {}
    for spelled, value in given.items():
        folded = str(spelled).strip().lower().removeprefix(PREFIX)
        key = _ALIASES.get(folded, folded)
        if key not in known:
            raise InvalidOptionError(f"unknown config key {spelled!r}; the keys are {', '.join(sorted(known))}")
        if key in values:
            raise InvalidOptionError(f"the config key '{key}' is given twice; give it once")
        values[key] = value
    return values


def _from_session(session: Mapping[str, str]) -> dict[str, Any]:
    return _given({key: value for key, value in session.items() if key.strip().lower().startswith(PREFIX)})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
