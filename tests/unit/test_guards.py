"""What the cleaner refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table_services.guards import is_plain, require_table, too_much, why_not_ours
from hudi_vector.table_services.mark_report import MarkReport

WRITE = "20260101000000000_0123456789ab"
FILE = f"{WRITE}-00000-0-0.blob"
OURS = f".hoodie/blobs/img/{WRITE}/{FILE}"
PLAIN = "refused: its path is not a plain path below the table's folder"
NAME = "refused: it does not have the name of a container"
OUTSIDE = "refused: it is outside .hoodie/blobs"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (OURS, None),
        (f".hoodie/blobs/d=1/h=2/doc.img/{WRITE}/{FILE}", None),
        (f".hoodie/blobs/a b/ü/{WRITE}/{FILE}", None),
        (f".hoodie/blobs/../blobs/img/{WRITE}/{FILE}", PLAIN),
        (f"../t/{OURS}", PLAIN),
        (f"./{OURS}", PLAIN),
        (f"{OURS}/", PLAIN),
        (OURS.replace("/img", "//img"), PLAIN),
        (f"/{OURS}", PLAIN),
        (f"file:///t/{OURS}", PLAIN),
        (f"s3://b/{OURS}", PLAIN),
        ("", OUTSIDE),
        (".hoodie/hoodie.properties", OUTSIDE),
        (f".hoodie/blobsx/img/{WRITE}/{FILE}", OUTSIDE),
        (f"img/{WRITE}/{FILE}", OUTSIDE),
        (".hoodie/blobs", OUTSIDE),
        (".hoodie/blobs/img/cat.png", NAME),
        (f".hoodie/blobs/img/{FILE}", NAME),
        (f".hoodie/blobs/img/{WRITE}/.tmp{FILE}", NAME),
        (f".hoodie/blobs/img/{WRITE}/{FILE}\n", NAME),
        (f".hoodie/blobs/img/{WRITE.replace('2026', '2027')}/{FILE}", NAME),
    ],
)
@pytest.mark.parametrize("table", ["file:///t", "s3://bucket/t"])
def test_only_containers_below_the_table_are_ours(table: str, path: str, reason: str | None) -> None:
    storage = open_storage("file:///", StorageOptions()) if table.startswith("file") else open_storage(
        "memory:///", StorageOptions()
    )  # fmt: skip
    assert why_not_ours(storage, table, path) == reason


@pytest.mark.parametrize(
    "linked", [".hoodie", ".hoodie/blobs", ".hoodie/blobs/img", f".hoodie/blobs/img/{WRITE}", OURS]
)
def test_no_link_below_the_table_is_followed(linked: str, tmp_path: Path) -> None:
    table, real = tmp_path / "t", tmp_path / "real"
    file = real / OURS
    file.parent.mkdir(parents=True)
    file.write_bytes(b"1")
    (table / linked).parent.mkdir(parents=True, exist_ok=True)
    (table / linked).symlink_to(real / linked)
    storage = open_storage("file:///", StorageOptions())
    assert (table / OURS).read_bytes() == b"1"
    assert why_not_ours(storage, f"file://{table}", OURS) == "refused: its path contains a symbolic link"
    assert why_not_ours(storage, f"file://{real}", OURS) is None
    (tmp_path / "above").symlink_to(real)
    assert is_plain(storage, f"file://{tmp_path}/above", OURS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://lake/t", "s3a://lake/t/"),
        ("s3n://lake//t", "s3://lake/t"),
        ("/tables/t", "file:///tables/t"),
        ("file:/tables/./t", "/tables/t/"),
    ],
)
def test_the_spellings_of_one_place_are_one_table(one: str, other: str) -> None:
    assert require_table(MarkReport("m", one, 0, ""), other) == require_table(MarkReport("m", other, 0, ""), one)


@pytest.mark.parametrize("other", ["s3://lake/t2", "s3://Lake/t", "gs://lake/t", "/lake/t"])
def test_another_table_is_refused(other: str) -> None:
    with pytest.raises(InvalidArgumentError, match="mark 'm' is about 's3://lake/t' and not about"):
        require_table(MarkReport("m", "s3://lake/t", 0, ""), other)


@pytest.mark.parametrize(
    ("going", "total", "share", "refused"),
    [
        ([], 0, 50, False),
        ([0], 0, 0, False),
        ([50], 100, 50, False),
        ([51], 100, 50, True),
        ([1, 50], 100, 50, True),
        ([1], 100, 0, True),
        ([100], 100, 99, True),
        ([100], 100, 100, False),
        ([500], 100, 100, False),
        ([3 << 60], 7 << 60, 43, False),
        ([3 << 60], 7 << 60, 42, True),
    ],
)
def test_the_share_that_may_go(going: list[int], total: int, share: int, refused: bool) -> None:
    assert (too_much(going, total, share) is not None) == refused
