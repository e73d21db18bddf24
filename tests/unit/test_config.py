"""hoodie.properties, by the rules of java.util.Properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_vector.errors import TableNotFoundError
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table.config import TableConfig, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\tb", {"a": "b"}),
        ("  a  =  b c  ", {"a": "b c  "}),
        ("a = : b", {"a": ": b"}),
        ("a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("# a=b\n! c=d\n  # e=f", {}),
        ("a=1\n\n   \nb=2", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b\\:c=d", {"a b:c": "d"}),
        ("a\\\\=b", {"a\\": "b"}),
        ("a\\\\\\=b=c", {"a\\=b": "c"}),
        ("a=one \\\n   two", {"a": "one two"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=one\\\n# two", {"a": "one# two"}),
        ("a=1\\", {"a": "1"}),
        ("a=\\u00e9\\u4E2d", {"a": "é中"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=\\t\\n\\f\\r\\x", {"a": "\t\n\f\rx"}),
        ("a=b\\#c\\!d", {"a": "b#c!d"}),
        ("a=x\u2028y\x1cz", {"a": "x\u2028y\x1cz"}),
        ("a\u00a0b=c", {"a\u00a0b": "c"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, wanted: dict[str, str]) -> None:
    assert parse_properties(text) == wanted


def test_a_file_is_no_table(tmp_path: Path) -> None:
    storage = open_storage("file:///", StorageOptions())
    assert read_properties(storage.read, f"file://{tmp_path}") is None
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    for path in (f"file://{tmp_path}/a.parquet", f"file://{tmp_path}/a.parquet/t"):
        with pytest.raises(
            TableNotFoundError, match=f"'{path}', which is a file or lies below one; give Parquet files"
        ):
            read_properties(storage.read, path)


def test_the_defaults_are_hudis() -> None:
    config = TableConfig.parse("hoodie.table.name=t\nhoodie.table.version=9")
    assert config.name == "t"
    assert config.version == 9
    assert not config.merge_on_read
    assert config.base_file_format == "parquet"
    assert config.record_key_fields == config.partition_fields == config.ordering_fields == ()
    assert config.populates_meta_fields
    assert config.plain_key_generator
    assert config.plain_merge
    flags = [config.hive_style_partitioning, config.url_encode_partitioning, config.drops_partition_columns]
    assert flags == [False] * 3
    assert not config.bootstrapped
    assert config.timeline_path == "timeline"
    assert config.timeline_zone == "LOCAL"
    assert config.create_schema is None


def test_what_a_table_says() -> None:
    config = TableConfig.parse(
        "\n".join(
            [
                "hoodie.table.version=8",
                "hoodie.table.type=MERGE_ON_READ",
                "hoodie.table.recordkey.fields=a, b",
                "hoodie.table.partition.fields=year:simple,day:timestamp",
                "hoodie.table.precombine.field=ts",
                "hoodie.datasource.write.hive_style_partitioning=TRUE",
                "hoodie.populate.meta.fields=false",
                "hoodie.table.timeline.timezone=utc",
                "hoodie.timeline.path=elsewhere",
                'hoodie.table.create.schema={"type"\\:"record"}',
            ]
        )
    )
    assert config.merge_on_read
    assert config.record_key_fields == ("a", "b")
    assert config.partition_fields == ("year", "day")
    assert config.ordering_fields == ("ts",)
    assert config.hive_style_partitioning
    assert not config.populates_meta_fields
    assert config.timeline_zone == "UTC"
    assert config.timeline_path == "elsewhere"
    assert config.create_schema == '{"type":"record"}'


def test_old_tables_keep_their_timeline_at_the_top() -> None:
    assert TableConfig.parse("hoodie.table.version=6\nhoodie.timeline.path=x").timeline_path == ""


@pytest.mark.parametrize(
    ("setting", "plain"),
    [
        ("type=SIMPLE", True),
        ("type=COMPLEX_AVRO", True),
        ("type=NON_PARTITION", True),
        ("type=TIMESTAMP", False),
        ("type=CUSTOM", False),
        ("class=org.apache.hudi.keygen.ComplexKeyGenerator", True),
        ("class=org.apache.hudi.keygen.CustomKeyGenerator", False),
        ("class=org.apache.hudi.keygen.TimestampBasedKeyGenerator", False),
        ("class=org.example.MyKeyGenerator", False),
    ],
)
def test_key_generators(setting: str, plain: bool) -> None:
    assert TableConfig.parse(f"hoodie.table.keygenerator.{setting}").plain_key_generator is plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("hoodie.record.merge.mode=EVENT_TIME_ORDERING", True),
        ("hoodie.record.merge.mode=COMMIT_TIME_ORDERING", True),
        ("hoodie.record.merge.mode=CUSTOM", False),
        ("hoodie.compaction.payload.class=org.apache.hudi.common.model.OverwriteWithLatestAvroPayload", True),
        ("hoodie.compaction.payload.class=org.example.MyPayload", False),
        ("hoodie.record.merge.strategy.id=eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", True),
        ("hoodie.record.merge.strategy.id=00000000-0000-0000-0000-000000000000", False),
        ("hoodie.record.merge.mode=COMMIT_TIME_ORDERING\nhoodie.table.partial.update.mode=KEEP_VALUES", False),
    ],
)
def test_merges(text: str, plain: bool) -> None:
    assert TableConfig.parse(text).plain_merge is plain
