"""Services and commands over a table with a damaged base file, or on storage that fails: one sentence, exit code 1."""

from __future__ import annotations

import errno
import os
import re
import shutil

import pytest
from support import tables
from support.blobs import rows, write
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector.command.main import main
from hudi_vector.errors import DataFileError
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.writing.rewriting.row_order import Order, laid_out

services = hv.table_services
OUT = {"img": {"inline.threshold": "0"}}


def half_live(spark, workspace, name):
    """A container of which rows refer to less than half."""
    path = tables.fresh_path(workspace, name)
    for version, count in ((1, 8), (2, 3)):
        write(rows(spark, [100] * count, ts=version), path, blobs=OUT, partition_by=None)
    return path


def damage(path, is_cut=False):
    """The second half of the newest base file has other bytes, or is cut off."""
    newest = max(path.glob("*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    half, size = newest.stat().st_size // 2, newest.stat().st_size
    newest.write_bytes(newest.read_bytes()[:half] + (b"" if is_cut else bytes(size - half)))
    for checksum in path.glob(".*.crc"):
        checksum.unlink()


@pytest.fixture(scope="module")
def damaged(spark, workspace):
    path = half_live(spark, workspace, "damaged")
    damage(path)
    return path


@pytest.mark.parametrize(
    ("failed", "service"),
    [
        ("counting the blobs of", lambda spark, path: services.compact_blobs(spark, path, dry_run=True)),
        ("reading the sizes of the blobs of", lambda spark, path: services.cluster(spark, path, dry_run=True)),
        ("looking for the keys in", lambda spark, path: services.check_erasure(spark, path, ["1"])),
        (
            "reading the order of the rows of",
            lambda spark, path: laid_out(BlobTable.of(spark, path), {"x": 1}, Order({}, [], 0)),
        ),
    ],
    ids=["states", "sizes", "keys", "order"],
)
def test_a_damaged_base_file_is_one_sentence(spark, damaged, failed, service):
    with pytest.raises(DataFileError) as raised:
        service(spark, str(damaged))
    assert re.fullmatch(rf"{failed} '.* failed: .*is not a Parquet file", str(raised.value))


def test_a_file_that_is_damaged_during_a_compaction_is_one_sentence(spark, workspace):
    path = half_live(spark, workspace, "damaged_later")

    def progress(sentence):
        if "looked after other writers" in sentence:
            damage(path)

    with pytest.raises(DataFileError) as raised:
        services.compact_blobs(spark, str(path), live_threshold=60, options=QUICK, progress=progress)
    assert re.fullmatch("counting the references of '.* failed: .*is not a Parquet file", str(raised.value))


def test_a_file_that_was_cut_is_named_with_its_bytes(damaged, workspace):
    cut = tables.fresh_path(workspace, "cut")
    shutil.copytree(damaged, cut)
    damage(cut, is_cut=True)
    why = (
        r"the data file '.*\.parquet' of '.*' has [\d,]+ bytes, and its commit wrote [\d,]+: something other than Hudi"
    )
    with pytest.raises(DataFileError, match=why):
        hv.blobs.inventory(None, str(cut))


@pytest.mark.parametrize(
    "command",
    [["compact-blobs"], ["cluster", "--assume-single-writer"], ["check-erasure", "--key", "1"], ["blobs", "inventory"]],
    ids=lambda words: words[0],
)
def test_a_command_that_fails_gives_1(spark, damaged, capsys, command):
    assert main([*command, "--table", str(damaged)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("hudi-vector: ")
    assert "is not a parquet file" in err.splitlines()[-1].lower()


def test_storage_that_fails_gives_1(spark, workspace, capsys):
    path = tables.fresh_path(workspace, "looped")
    write(rows(spark, [100]), path, blobs=OUT, partition_by=None)
    shutil.rmtree(path / ".hoodie/blob_service")
    (path / ".hoodie/blob_service").symlink_to("blob_service")
    assert main(["clean-blobs", "--table", str(path)]) == 1
    assert capsys.readouterr().err.startswith(
        f"hudi-vector: clean-blobs failed: {os.strerror(errno.ELOOP)}: '{path}/.h"
    )
