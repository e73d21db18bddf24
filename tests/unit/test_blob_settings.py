"""The settings of blobs: RFC-100's keys, texts with units, overrides per column, contradictions."""

from __future__ import annotations

import pickle

import pytest

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.errors import InvalidOptionError

THRESHOLD = "hoodie.storage.blob.inline.threshold"
ELEMENT = "hoodie.storage.blob.outofline.container.maxElementSize"
FILE = "hoodie.storage.blob.outofline.container.maxFileSize"
FORMAT = "hoodie.storage.blob.outofline.format"
LEASE = "hoodie.blob.write.lease"


def test_the_defaults_are_those_of_the_rfc() -> None:
    made = BlobSettings.of({})
    assert made == BlobSettings()
    assert (made.inline_threshold, made.format, made.paths, made.checksum) == (1048576, "raw", "absolute", "none")
    assert made.lease_ms == 24 * 3600 * 1000


def test_every_key_is_read() -> None:
    made = BlobSettings.of(
        {
            THRESHOLD: "64 KiB",
            ELEMENT: "2MB",
            FILE: "8388608",
            FORMAT: "Lance",
            LEASE: "2h",
            "hoodie.storage.blob.checksum": "sha256",
            "hoodie.storage.blob.paths": "relative",
            "hoodie.storage.blob.external.pin": "false",
            "hoodie.table.name": "other concerns are passed over",
            "hoodie.blob.clean.grace": "24h",
        }
    )
    assert made == BlobSettings(65536, 2 << 20, 8 << 20, "lance", "sha256", "relative", 7_200_000, "false")


def test_they_travel_and_are_written_down() -> None:
    made = BlobSettings(0, 10, 10, "parquet", "crc32", "relative", 1000)
    assert pickle.loads(pickle.dumps(made)) == made
    assert BlobSettings.of(made.to_options()) == made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {THRESHOLD: "1 bit"},
            f"{THRESHOLD} = '1 bit' is not allowed: give a whole number of bytes, or one with a unit",
        ),
        ({THRESHOLD: "-1"}, "0 or more"),
        ({THRESHOLD: "16777217"}, "above 16777216 .16 MiB., and larger blobs are always stored out of line"),
        ({ELEMENT: "2MB", FILE: "1MB"}, "maxElementSize = 2097152 is larger than .*maxFileSize = 1048576"),
        ({FILE: "1MB"}, "maxElementSize = 67108864 is larger than"),
        ({ELEMENT: "0"}, "1 or more"),
        ({FORMAT: "HFile"}, "only HBase's Java classes write HFile, sorted by key"),
        ({FORMAT: "orc"}, "give one of raw, lance, parquet"),
        ({LEASE: "1 week"}, "give a whole number of milliseconds, or one with a unit such as 90s"),
        ({"hoodie.storage.blob.checksum": "md5"}, "give one of none, crc32, sha256"),
        ({"hoodie.storage.blob.inline.treshold": "1"}, "'hoodie.storage.blob.inline.treshold' is no setting of blobs"),
        ({"hoodie.blob.write.leese": "1h"}, "is no setting of blobs; the settings are hoodie.storage"),
        ({"hoodie.blob.write.leese": "1h"}, r"; did you mean 'hoodie\.blob\.write\.lease'\?$"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        BlobSettings.of(options)


def test_sixteen_mebibytes_is_the_highest_threshold() -> None:
    assert BlobSettings.of({THRESHOLD: "16MiB"}).inline_threshold == 16 << 20


@pytest.mark.parametrize("key", [THRESHOLD, "inline.threshold", "threshold", "Inline.Threshold"])
def test_a_column_overrides_with_full_or_short_names(key: str) -> None:
    base = BlobSettings.of({FORMAT: "parquet", THRESHOLD: "5"})
    assert base.for_column("img", {key: "1KB"}) == BlobSettings(inline_threshold=1024, format="parquet")
    assert base.for_column("img", {}) == base


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "1"}, "column 'doc.img': 'size' is no setting of blobs"),
        ({"shold": "1"}, "'shold' is no setting of blobs"),
        ({"format": "hfile"}, "column 'doc.img': .*HFile"),
        ({"threshold": "1", THRESHOLD: "2"}, "one setting is given twice among threshold"),
        ({"lease": "1h"}, "lease belongs to the whole write, not to one column"),
        ({"maxFileSize": "1KB"}, "column 'doc.img': .*maxElementSize = 67108864 is larger than"),
    ],
)
def test_wrong_overrides_name_the_column(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        BlobSettings().for_column("doc.img", options)
