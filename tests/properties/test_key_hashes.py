"""Hashes of record keys find the rows that have some keys: those that a look at all keys finds, however keys collide."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.indexed import collide, colliding, quarter_alike

from hudi_vector.read.logs.base_rows import base_rows
from hudi_vector.read.logs.key_hashes import KeyHashes, hashed
from hudi_vector.read.logs.record_keys import hashes_of_file, keys_of_file
from hudi_vector.read.logs.touched import _rows_with
from hudi_vector.storage import FileInfo, StorageOptions, open_storage

OPTIONS = StorageOptions()
KEYS = st.lists(st.one_of(st.integers(0, 40).map(str), st.text(max_size=9)), max_size=120)


def key_array(keys: list[str]) -> pa.Array:
    return pa.array(keys, pa.string())


def base_file(folder: Path, keys: list[str | None], **written: Any) -> FileInfo:
    """A base file with these keys, in pages of a few."""
    path = folder / "f_0_1.parquet"
    table = pa.table({"id": pa.array(range(len(keys)), pa.int64()), "_hoodie_record_key": pa.array(keys, pa.string())})
    pq.write_table(table, path, write_batch_size=4, **written)
    found = open_storage(f"file://{path}", OPTIONS).info(f"file://{path}")
    assert found is not None
    return found


def rows_at(base: FileInfo, rows: Any) -> list[dict[str, Any]]:
    schema = pa.schema([("_hoodie_record_key", pa.string()), ("id", pa.int64())])
    return [row for part in base_rows(base, OPTIONS, rows, schema) for row in part.to_pylist()]


@given(KEYS)
def test_a_hash_is_eight_bytes_of_blake2b(keys: list[str]) -> None:
    expected = [int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") for key in keys]
    assert hashed(key_array(keys)).tolist() == expected


@given(KEYS, KEYS, st.booleans())
def test_rows_like_keys_are_all_of_the_same_hash(keys: list[str], asked: list[str], collides: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        hash_of = quarter_alike if collides else hashed
        if collides:
            collide(patch)
        held = KeyHashes.of(hash_of(key_array(keys)))
        assert (held.key_hash.dtype.str, held.key_row.dtype.str) == ("<u8", "<u4")
        assert sorted(held.key_row.tolist()) == list(range(len(keys)))
        pairs = list(zip(held.key_hash.tolist(), held.key_row.tolist(), strict=True))
        assert pairs == sorted(pairs)
        wanted = set(hash_of(key_array(asked)).tolist())
        expected = [row for row, one in enumerate(hash_of(key_array(keys)).tolist()) if one in wanted]
        assert held.rows_like(key_array(asked)).tolist() == expected


@given(
    keys=KEYS,
    asked=KEYS,
    collides=st.booleans(),
    written=st.fixed_dictionaries(
        {
            "row_group_size": st.sampled_from([7, 50, 1000]),
            "data_page_size": st.sampled_from([16, 1 << 20]),
            "compression": st.sampled_from(["none", "snappy", "gzip"]),
            "use_dictionary": st.booleans(),
            "write_page_index": st.booleans(),
        }
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_with_keys_are_those_that_all_keys_tell(
    tmp_path: Path, keys: list[str], asked: list[str], collides: bool, written: dict[str, Any]
) -> None:
    base = base_file(tmp_path, list(keys), **written)
    wanted = key_array(asked).unique()
    with pytest.MonkeyPatch.context() as patch:
        if collides:
            collide(patch)
        hashes = hashes_of_file(base, OPTIONS)
        assert hashes is not None
        found = _rows_with(wanted, base, OPTIONS, hashes)
        told = _rows_with(wanted, base, OPTIONS, None)
        assert found is not None
        assert told is not None
        assert found.dtype == told.dtype == np.int64
        assert told.tolist() == [row for row, key in enumerate(keys) if key in asked]
        assert found.tolist() == hashes.rows_like(wanted).tolist()
        assert set(told.tolist()) <= set(found.tolist())
        assert collides or found.tolist() == told.tolist()
        assert rows_at(base, found) == [{"_hoodie_record_key": keys[row], "id": int(row)} for row in found]
        assert keys_of_file(base, OPTIONS).to_pylist() == keys


@pytest.mark.parametrize("use_dictionary", [False, True])
@pytest.mark.parametrize("compression", ["none", "snappy", "gzip"])
def test_keys_of_few_rows_and_of_many(tmp_path: Path, compression: str, use_dictionary: bool) -> None:
    keys = [f"key {number * 7919 % 3001}" for number in range(4000)]
    written: dict[str, Any] = {"row_group_size": 1500, "data_page_size": 512, "compression": compression}
    base = base_file(tmp_path, list(keys), use_dictionary=use_dictionary, **written)
    hashes = hashes_of_file(base, OPTIONS)
    assert hashes is not None
    for rows in ([], [0], [2999, 3000], [7, 8, 1600, 3999], range(1490, 1510), range(0, 4000, 3), range(4000)):
        chosen = np.array(rows, np.int64)
        assert [row["_hoodie_record_key"] for row in rows_at(base, chosen)] == [keys[row] for row in rows]
        wanted = key_array([keys[row] for row in rows]).unique()
        found, told = _rows_with(wanted, base, OPTIONS, hashes), _rows_with(wanted, base, OPTIONS, None)
        assert found is not None
        assert told is not None
        assert found.tolist() == told.tolist()
        assert set(rows) <= set(found.tolist())


def test_a_file_with_a_row_without_key_has_no_hashes(tmp_path: Path) -> None:
    base = base_file(tmp_path, ["a", None, "b"])
    assert hashes_of_file(base, OPTIONS) is None
    assert _rows_with(key_array(["a"]), base, OPTIONS, None) is None
    pq.write_table(pa.table({"id": [1]}), tmp_path / "plain.parquet")
    plain = open_storage(f"file://{tmp_path}", OPTIONS).info(f"file://{tmp_path}/plain.parquet")
    assert plain is not None
    assert hashes_of_file(plain, OPTIONS) is None


def test_colliding_keys_have_the_hash_they_are_looked_for_by() -> None:
    keys = key_array([str(number) for number in range(50)])
    one, other = colliding(KeyHashes.of(hashed(keys))), KeyHashes.of(quarter_alike(keys))
    assert one.key_hash.tolist() == other.key_hash.tolist()
    assert one.key_row.tolist() == other.key_row.tolist()
