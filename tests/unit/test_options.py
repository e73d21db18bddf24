"""Settings: their values, their refusals, their table."""

from __future__ import annotations

import pytest

from hudi_vector import options
from hudi_vector.errors import InvalidOptionError


def test_every_key_is_declared_once() -> None:
    keys = [option.key for option in options.ALL]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith("hoodie.vector.") for key in keys)
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
        (options.BATCH_BLOCK_QUERIES, "0", "queries, 1 or more"),
        (options.CACHE_MAX_BYTES, "1.5", "a whole number of bytes"),
        (options.EXECUTION, "remote", "give one of auto, local, distributed"),
        (options.INVALID_VECTORS, "", "give one of fail, skip, null"),
    ],
)
def test_other_values_are_refused(option: options.Option, text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        option.read({option.key: text})


def test_names_are_read_in_any_case() -> None:
    assert options.EXECUTION.parse(" Distributed") == "distributed"


def test_the_markdown_table() -> None:
    lines = options.markdown().splitlines()
    assert lines[0] == "| Key | Default | Allowed | Unit | Meaning |"
    assert len(lines) == 2 + len(options.ALL)
    assert all(line.count("|") == 6 for line in lines)
    row = next(line for line in lines if options.EXECUTION.key in line)
    assert row.startswith("| `hoodie.vector.search.execution` | `auto` | `auto`, `local`, `distributed` |")
