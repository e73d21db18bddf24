"""The pins of referenced files, looked up for rows."""

from __future__ import annotations

import pyarrow as pa

from hudi_vector.blobs.counts.pinned import KnownPins


def test_a_row_has_the_newest_pin_of_its_write_or_an_earlier_one() -> None:
    pins = KnownPins({"/a": (["20", "30"], [(1, 11), (2, 22)]), "/b": (["40"], [(3, 33)])})
    paths = pa.array(["/a", "/a", "/a", "/a", "/b", "/c", None])
    written = pa.array(["10", "20", "29", None, "41", "41", "41"])
    found = pins.newest(paths, written).to_pylist()
    first, second, other = ({"size": size, "mtime_ns": 11 * size} for size in (1, 2, 3))
    assert found == [None, first, first, second, other, None, None]
