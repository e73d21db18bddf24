"""Snapshots of micro-batches, noted beside a checkpoint."""

from __future__ import annotations

import pytest

from hudi_vector.storage import StorageOptions
from hudi_vector.streaming.snapshots.noted import Pins
from hudi_vector.table.instants import Moment


def moments(*texts):
    given = iter(texts)
    return lambda: Moment.parse(next(given))


@pytest.fixture
def checkpoint(tmp_path):
    return f"file://{tmp_path}/checkpoint"


def test_a_batch_has_one_moment_however_often_it_runs(checkpoint):
    choose = moments("1 5", "2")
    assert Pins(checkpoint, "t", StorageOptions()).of_batch(0, choose).text == "1 5"
    again = Pins(checkpoint, "t", StorageOptions())
    assert again.of_batch(0, choose).text == "1 5"
    assert again.of_batch(1, choose).text == "2"


def test_tables_have_their_own(checkpoint):
    assert Pins(checkpoint, "t", StorageOptions()).of_batch(0, moments("1")).text == "1"
    assert Pins(checkpoint, "u", StorageOptions()).of_batch(0, moments("2")).text == "2"


def test_two_drivers_agree(checkpoint):
    one, other = (Pins(checkpoint, "t", StorageOptions()) for _ in range(2))
    noted = []

    def slowly():
        noted.append(other.of_batch(7, moments("2")))
        return Moment("1")

    first = one.of_batch(7, slowly)
    third = Pins(checkpoint, "t", StorageOptions()).of_batch(7, moments("3"))
    assert first == third == noted[0]
    assert first.text == "2"


def test_old_ones_are_forgotten(checkpoint, tmp_path):
    pins = Pins(checkpoint, "t", StorageOptions())
    for number in range(0, 400, 50):
        pins.of_batch(number, moments(str(number)))
    assert len([path for path in tmp_path.rglob("0*") if path.is_file()]) == 3


def test_a_file_that_is_not_whole_is_none(checkpoint, tmp_path):
    Pins(checkpoint, "t", StorageOptions()).of_batch(3, moments("1"))
    [file] = [path for path in tmp_path.rglob("0*") if path.is_file()]
    file.write_bytes(file.read_bytes()[:-3])
    assert Pins(checkpoint, "t", StorageOptions()).of_batch(3, moments("2")).text == "2"
