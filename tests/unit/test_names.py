"""Names of data files."""

from __future__ import annotations

import pytest

from hudi_vector.table.names import BaseFileName, LogFileName, parse_base_file, parse_log_file

T = "20260101000000000"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (f"f1-0_0-1-2_{T}.parquet", BaseFileName("f1-0", T, "parquet")),
        (f"f1-0_0-1-2_{T[:14]}.parquet", BaseFileName("f1-0", T[:14], "parquet")),
        (f"f1-0_0-1-2_{T}.lance", BaseFileName("f1-0", T, "lance")),
        (f"f1-0_0-1-2_{T}.orc", BaseFileName("f1-0", T, "orc")),
        (f"f1-0_0-1-2_{T}.parquet.crc", None),
        (f".f1-0_0-1-2_{T}.parquet.crc", None),
        ("part-00000.parquet", None),
        (f"f1-0_0-1-2_{T}1.parquet", None),
        (f"f1-0_{T}.parquet", None),
        ("", None),
    ],
)
def test_base_files(name: str, wanted: BaseFileName | None) -> None:
    assert parse_base_file(name) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (f".f1-0_{T}.log.1_0-1-2", LogFileName("f1-0", T, 1, "0-1-2", False)),
        (f".f1-0_{T}.log.12", LogFileName("f1-0", T, 12, "", False)),
        (f".f1-0_{T[:14]}.log.1_10-20-30", LogFileName("f1-0", T[:14], 1, "10-20-30", False)),
        (f".f1-0_{T}.log.1_0-1-2.cdc", LogFileName("f1-0", T, 1, "0-1-2", True)),
        (f".a_b_{T}.log.1_0-1-2", LogFileName("a_b", T, 1, "0-1-2", False)),
        (f"f1-0_{T}.log.1_0-1-2", None),
        (f".f1-0_{T}.log.1_0-1-2.crc", None),
        (f".f1-0_{T}.archive.1", None),
        (".hoodie_partition_metadata", None),
    ],
)
def test_log_files(name: str, wanted: LogFileName | None) -> None:
    assert parse_log_file(name) == wanted
