"""The examples of docs/examples, run with the real libraries where they are installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from hudi_vector.blobs.reading.rows import blob_rows

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def references(tmp_path: Path) -> pa.Table:
    container = tmp_path / "container.blob"
    container.write_bytes(bytes(range(100)))
    blobs = [(str(container), 10 * number, 10) for number in range(9)]
    return pa.table({"id": list(range(10)), "img": blob_rows([*blobs, None])})


def expected() -> list[tuple[int, bytes | None]]:
    return [*((number, bytes(range(10 * number, 10 * number + 10))) for number in range(9)), (9, None)]


def as_pair(row: dict[str, Any], data: bytes | None) -> tuple[int, bytes | None]:
    return row["id"], data


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pytorch_dataset(references: pa.Table, workers: int) -> None:
    data = pytest.importorskip("torch.utils.data", reason="torch is not among what tests install; it is for users")
    made = example("torch_dataset").BlobDataset(references, "img", as_pair, memory_budget=25)
    found = list(data.DataLoader(made, num_workers=workers, batch_size=None))
    assert sorted(map(tuple, found)) == expected()


def test_blocks_in_rays_object_store(references: pa.Table) -> None:
    ray = pytest.importorskip("ray", reason="ray is not among what tests install; it is for users")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        blocks = ray.get(example("ray_blocks").blob_blocks(references, "img", rows_per_block=4))
        assert [block.num_rows for block in blocks] == [4, 4, 2]
        whole = pa.concat_tables(blocks)
        assert list(zip(whole["id"].to_pylist(), whole["img"].to_pylist(), strict=True)) == expected()
    finally:
        ray.shutdown()
