"""A local folder is listed without Java: the names and times are those that Hadoop tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_vector.errors import DataFileError
from hudi_vector.writing.files import Files


def as_hadoop_lists(spark, folder):
    where = spark._jvm.org.apache.hadoop.fs.Path(str(folder))
    entries = where.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).listStatus(where)
    return {entry.getPath().getName(): entry.getModificationTime() for entry in entries}


def test_names_and_times_are_those_of_hadoop(spark, tmp_path):
    folder = tmp_path / "an odd%20name"
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("a", ".hidden", "b.crc", ".a.crc", "ä b", "100%"):
        (folder / name).write_bytes(b"x")
    (folder / "link").symlink_to(folder / "a")
    files = Files(spark)
    listed = files.listing(files.qualified(str(folder)))
    assert listed == as_hadoop_lists(spark, folder)
    assert listed.keys() == {"deep", "a", ".hidden", "b.crc", "ä b", "100%", "link"}


@pytest.mark.parametrize("missing", ["nothing", "a/nothing"])
def test_no_folder_is_empty(spark, tmp_path: Path, missing: str):
    (tmp_path / "a").write_bytes(b"x")
    files = Files(spark)
    assert files.listing(files.qualified(str(tmp_path / missing))) == {}


def test_a_folder_that_cannot_be_listed_is_one_sentence(spark, tmp_path):
    with pytest.raises(DataFileError, match=r"^the folder '.*' cannot be listed: .*File name too long") as refused:
        Files(spark).listing(f"file:{tmp_path}/{'x' * 300}")
    assert "\n" not in str(refused.value)
