"""Settings: their values, their refusals, their table."""

from __future__ import annotations

import re

import pytest

from hudi_vector import options
from hudi_vector.errors import InvalidOptionError


def test_every_key_is_declared_once() -> None:
    keys = [option.key for option in options.ALL]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(("hoodie.vector.", "hoodie.storage.blob.", "hoodie.blob.")) for key in keys)
    declared = {value for value in vars(options).values() if isinstance(value, options.Option)}
    assert declared == set(options.ALL)


@pytest.mark.parametrize("option", options.ALL, ids=lambda option: option.key)
def test_a_default_is_a_value_of_its_setting(option: options.Option) -> None:
    assert option.parse(str(option.default)) == option.default
    assert option.read({}) == option.default
    assert option.read({option.key: f" {option.default} "}) == option.default
    assert option.description


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (
            options.LOCAL_THREADS,
            "two",
            "hoodie.vector.search.local.threads = 'two' is not allowed: give a whole number",
        ),
        (options.LOCAL_THREADS, "-1", "threads, 0 or more"),
        (options.CLEAN_MAX_SHARE, "101", "percent, 0 to 100"),
        (options.COMPACT_LIVE_THRESHOLD, "-1", "percent, 0 to 100"),
        (options.BATCH_BLOCK_QUERIES, "0", "queries, 1 or more"),
        (options.CACHE_MAX_BYTES, "1.5", "a whole number of bytes"),
        (options.CACHE_MAX_BYTES, "-1", "a whole number of bytes.*, 0 or more"),
        (options.CACHE_MAX_BYTES, "64 Mo", "a unit such as 512KB, 64 MiB or 1GB"),
        (options.BLOB_WRITE_LEASE, "1 week", "a whole number of milliseconds, or one with a unit such as 90s"),
        (options.BLOB_WRITE_LEASE, "999", "1000 or more"),
        (options.EXECUTION, "remote", "give one of auto, local, distributed"),
        (options.INVALID_VECTORS, "", "give one of fail, skip, null"),
        (options.ERASED_KEYS, "on", "give one of off, drop, fail"),
    ],
)
def test_other_values_are_refused(option: options.Option, text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        option.read({option.key: text})


def test_names_are_read_in_any_case() -> None:
    assert options.EXECUTION.parse(" Distributed") == "distributed"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("1MB", 1 << 20),
        (" 64 MiB ", 64 << 20),
        ("2g", 2 << 30),
        ("3 tb", 3 << 40),
        ("12b", 12),
        ("1.5MB", None),
        ("-1", None),
        ("MB", None),
        ("", None),
        ("٣MB", None),
        ("1 MB 2", None),
        ("1 bit", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert options.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("1500", 1500),
        ("1500ms", 1500),
        ("90s", 90_000),
        ("30 min", 1_800_000),
        ("30m", 1_800_000),
        ("24H", 86_400_000),
        ("7d", 604_800_000),
        ("1w", None),
        ("-1s", None),
        ("24h 30m", None),
        ("", None),
    ],
)
def test_durations(text: str, duration: int | None) -> None:
    assert options.parse_duration(text) == duration


def test_the_markdown_table() -> None:
    lines = options.markdown().splitlines()
    assert lines[0] == "| Key | Default | Allowed | Unit | Meaning |"
    assert len(lines) == 2 + len(options.ALL)
    assert all(line.count("|") == 6 for line in lines)
    row = next(line for line in lines if options.EXECUTION.key in line)
    assert row.startswith("| `hoodie.vector.search.execution` | `auto` | `auto`, `local`, `distributed` |")


def test_settings_of_the_cleaner() -> None:
    assert (options.CLEAN_GRACE.parse("36h"), options.CLEAN_GRACE.parse("0")) == (129_600_000, 0)
    assert options.CLEAN_TRASH_WINDOW.default == 7 * 86_400_000
    assert options.CLEAN_MAX_SHARE.parse("10") == 10
    for text in ("0.5", "50%", "-1"):
        with pytest.raises(InvalidOptionError, match="give a whole number of percent, 0 to 100"):
            options.CLEAN_MAX_SHARE.parse(text)
    with pytest.raises(InvalidOptionError, match="give a whole number of files, 1 or more"):
        options.CLEAN_MAX_FILES.parse("0")


@pytest.mark.parametrize("option", options.ALL, ids=lambda option: option.key)
def test_a_misspelt_key_is_answered_with_the_nearest(option: options.Option) -> None:
    options.require_known([option.key, "hoodie.table.name", "spark.app.name", "anything"])
    start = max(map(len, (prefix for prefix in options.PREFIXES if option.key.startswith(prefix))))
    for place in range(start, len(option.key)):
        for wrong in (option.key[:place] + option.key[place + 1 :], option.key[:place] + "q" + option.key[place:]):
            if wrong in options._KNOWN:
                continue
            with pytest.raises(InvalidOptionError) as refused:
                options.require_known(["hoodie.table.name", wrong])
            assert str(refused.value).startswith(f"'{wrong}' is no setting; did you mean 'hoodie.")
            # Letters that one key has more than another may leave it as near to that one.
            named = re.search(r"did you mean '(.*)'\?$", str(refused.value))[1]
            assert abs(len(named) - len(wrong)) <= 3


@pytest.mark.parametrize("key", ["hoodie.blob.batching.max.gap.bytes", "hoodie.blob.batching.lookahead.size"])
def test_hudis_own_keys_pass(key: str) -> None:
    options.require_known([key])
    assert options.without_effect([key]) == []


def test_capitals_matter_but_in_the_options_of_a_write() -> None:
    key = options.BLOB_MAX_FILE_SIZE.key
    with pytest.raises(InvalidOptionError, match=f"is no setting; did you mean '{key}'"):
        options.require_known([key.lower()])
    options.require_known([key.lower()], any_case=True)


def test_a_key_like_no_other_gets_no_advice() -> None:
    with pytest.raises(
        InvalidOptionError, match=r"^'hoodie\.blob\.zzz' is no setting; 'hudi-vector options' lists all"
    ):
        options.require_known(["hoodie.blob.zzz"])


def test_properties_of_a_table_are_no_settings() -> None:
    assert options.without_effect(["hoodie.table.name", "hoodie.blob.clean.gracee", "hoodie.vector.invalid"]) == [
        "'hoodie.blob.clean.gracee' has no effect as a property of a table; set it in the session "
        "('hoodie.blob.clean.gracee' is no setting; did you mean 'hoodie.blob.clean.grace'?)",
        "'hoodie.vector.invalid' has no effect as a property of a table; set it in the session",
    ]
