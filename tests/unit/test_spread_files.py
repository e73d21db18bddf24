"""Retained files divided among waves and tasks, and what a task sends back."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.blob_states import BlobTable, blob, inline

from hudi_vector.storage import FileInfo, StorageOptions, open_storage
from hudi_vector.table_services.references import distributed
from hudi_vector.table_services.references.distributed import SpreadLimits, waves
from hudi_vector.table_services.references.files import read_here
from hudi_vector.table_services.retention.retained import BASE, RetainedFile, list_retained

LOCAL = StorageOptions()


def file_of(number: int, size: int) -> RetainedFile:
    return RetainedFile("file:///t", FileInfo(f"file:///t/{number}", size, 1), BASE, str(number), "1")


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 3))
def test_every_file_is_in_one_task(sizes: list[int], tasks: int) -> None:
    files = [file_of(number, size) for number, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "_WAVE_BYTES", 50)
        patch.setattr(distributed, "_FILES_PER_TASK", 4)
        found = list(waves(files, tasks))
    assert sorted(file.info.uri for wave in found for task in wave for file in task) == sorted(
        f.info.uri for f in files
    )
    for wave in found:
        held = [file.info.size for task in wave for file in task]
        assert 1 <= len(wave) <= tasks
        assert len(held) <= 4 * tasks
        assert sum(held) <= 50 or len(held) == 1


@pytest.mark.parametrize(("limits", "allowed"), [((3, 2), True), ((2, 2), False), ((3, 1), False)])
def test_few_files_are_read_here(limits: tuple[int, int], allowed: bool) -> None:
    assert SpreadLimits(*limits).allow([file_of(1, 1), file_of(2, 2)]) is allowed
    assert SpreadLimits(0, 0).allow([])


def test_a_task_sends_what_was_read(tmp_path: Path) -> None:
    table = BlobTable(tmp_path.resolve() / "t", 1_700_000_000_000)
    table.base("f1", table.instant(), {number: blob(f"/x/{number % 3}", number, None) for number in range(50)})
    table.base("f2", table.instant(), {1: None, 2: inline(b"x")})
    for form in ("avro", "parquet"):
        table.log("f3", table.instant(), {1: blob("/y", managed=False), 2: blob("/ü")}, form)
    table.file("f4_0-1-2_20260101000000000.parquet", b"PAR1")
    gone = table.base("f5", table.instant(), {1: blob("/z")})
    files = list_retained(table.uri, open_storage(table.uri, LOCAL)).files
    gone.unlink()
    outcome = pickle.loads(pickle.dumps(distributed._outcome(files, LOCAL)))
    sent, right = list(distributed._files_of(outcome)), list(read_here(files, LOCAL))
    assert sent == right
    assert [found.is_gone for found in sent].count(True) == 1
    assert [found.doubt is not None for found in sent].count(True) == 1
    for one, other in zip(sent, right, strict=True):
        assert one.references.equals(other.references)
