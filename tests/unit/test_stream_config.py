"""The configuration of a streaming search: FLIP's keys, from the call and from the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_vector import options
from hudi_vector.errors import InvalidOptionError, InvalidTypeError
from hudi_vector.streaming.config import KEYS, PREFIX, StreamConfig


def test_the_defaults_are_those_of_the_flip():
    config = StreamConfig.of({}, {})
    assert config == StreamConfig()
    assert (config.is_async, config.concurrent, config.timeout) == (False, 10, 180.0)
    assert (config.grows, config.delay, config.attempts, config.ordered) == (False, 0.1, 3, True)


@pytest.mark.parametrize(
    ("key", "value", "field", "read"),
    [
        ("async", "TRUE", "is_async", True),
        ("async", True, "is_async", True),
        ("max-concurrent-operations", 4, "concurrent", 4),
        ("Timeout", "3 min", "timeout", 180.0),
        ("timeout", "90s", "timeout", 90.0),
        ("retry-strategy", "Exponential_Delay", "grows", True),
        ("retry-delay", "250 ms", "delay", 0.25),
        ("fixed-delay", "2s", "delay", 2.0),
        ("max-attempts", "1", "attempts", 1),
        ("output-mode", "allow_unordered", "ordered", False),
        ("refresh-interval", "0", "refresh", 0.0),
        ("cache-memory", "64MB", "cache_memory", 64 << 20),
        ("unavailable-snapshot", "Nearest", "unavailable", "nearest"),
        ("pin-snapshot", True, "pins", True),
        ("snapshot-column", "Seen", "snapshot_column", "Seen"),
        (PREFIX + "max-attempts", "7", "attempts", 7),
    ],
)
def test_every_key(key, value, field, read):
    assert getattr(StreamConfig.of({key: value}, {}), field) == read


def test_every_key_can_be_set_in_the_session_and_the_call_wins():
    session = {PREFIX + "max-attempts": "5", PREFIX + "FIXED-delay": "1s", "spark.app.name": "x"}
    assert StreamConfig.of({}, session).attempts == 5
    assert StreamConfig.of({}, session).delay == 1.0
    assert StreamConfig.of({"max-attempts": 2, "retry-delay": "3s"}, session).attempts == 2
    assert StreamConfig.of({"retry-delay": "3s"}, session).delay == 3.0


def test_the_cache_has_the_sessions_budget_where_none_is_given():
    assert StreamConfig.of({}, {options.CACHE_MAX_BYTES.key: "1MB"}).cache_memory == 1 << 20
    assert StreamConfig.of({"cache-memory": "2MB"}, {options.CACHE_MAX_BYTES.key: "1MB"}).cache_memory == 2 << 20


@pytest.mark.parametrize(
    ("given", "session", "said"),
    [
        ({"retry": "1"}, {}, "unknown config key 'retry'; the keys are async, cache-memory, "),
        ({}, {PREFIX + "retry": "1"}, "unknown config key 'table.exec.async-vector-search.retry'"),
        ({"retry-delay": "1s", "fixed-delay": "1s"}, {}, "the config key 'retry-delay' is given twice; give it once"),
        ({"async": "yes"}, {}, "async = 'yes' is not allowed: give one of true, false"),
        ({"max-concurrent-operations": 0}, {}, "max-concurrent-operations = '0' is not allowed: give a whole number"),
        ({"timeout": "soon"}, {}, "timeout = 'soon' is not allowed: give a whole number of milliseconds"),
        ({"retry-strategy": "never"}, {}, "give one of fixed_delay, exponential_delay"),
        ({"output-mode": "any"}, {}, "give one of ordered, allow_unordered"),
        ({"cache-memory": "much"}, {}, "cache-memory = 'much' is not allowed: give a whole number of bytes"),
    ],
)
def test_what_is_not_allowed_is_one_sentence(given, session, said):
    with pytest.raises(InvalidOptionError) as refused:
        StreamConfig.of(given, session)
    assert said in str(refused.value)


def test_a_configuration_is_a_mapping():
    with pytest.raises(InvalidTypeError, match="config must be a mapping of keys to values, not list"):
        StreamConfig.of(["async"], {})


def test_no_two_keys_have_one_name():
    assert len({option.key for option in KEYS}) == len(KEYS)


def test_the_documentation_lists_every_key():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "stream.md"
    assert options.markdown(KEYS) in page.read_text(encoding="utf-8")
