"""The datasource of Ray Data, run by a real Ray of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.samples import ROWS, Photos, photos

from hudi_vector import errors


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Photos:
    return photos(tmp_path_factory.mktemp("ray"))


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with a cluster; each process that collects tests would import it for nothing."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


def datasource(path: str, **arguments: Any) -> Any:
    """A datasource of a table, whose module imports Ray."""
    from hudi_vector.integrations.ray import HudiDatasource

    return HudiDatasource(path, **arguments)


def test_a_dataset_has_every_row_once(made: Photos, ray: Any) -> None:
    dataset = ray.data.read_datasource(datasource(made.path, columns=["id"], blobs=["img"]))
    rows = dataset.take_all()
    assert {row["id"]: row["img"] for row in rows} == made.rows
    assert len(rows) == len(made.rows)
    some = ray.data.read_datasource(datasource(made.path, filter="id < 7 AND id > 3"))
    sizes = some.map_batches(lambda batch: {"id": batch["id"], "size": [len(each or b"") for each in batch["img"]]})
    assert {row["id"]: row["size"] for row in sizes.take_all()} == {4: 0, 5: 9, 6: 7}


def test_a_lost_container_is_one_sentence(tmp_path: Path, ray: Any) -> None:
    made = photos(tmp_path, logged=False)
    source = datasource(made.path)
    made.container.unlink()
    with pytest.raises(
        errors.BlobReadError, match=r"the blob at '.*' \(offset \d+, length 9\) cannot be read: the file is gone"
    ):
        ray.data.read_datasource(source).take_all()


def blocks(source: Any, parallelism: int) -> list[list[pa.Table]]:
    return [list(task()) for task in source.get_read_tasks(parallelism)]


def test_tasks_and_blocks(made: Photos) -> None:
    """A task reads whole file slices; a block has no more rows, and no more bytes, than it was allowed."""
    source = datasource(made.path, columns=["id"], block_rows=8)
    assert [len(blocks(source, parallelism)) for parallelism in (1, 2, 100)] == [1, 2, 2]
    for parallelism in (1, 2):
        found = [block for task in blocks(source, parallelism) for block in task]
        assert all(block.num_rows <= 8 for block in found)
        assert dict(zip(*pa.concat_tables(found).to_pydict().values(), strict=True)) == made.rows
    small = datasource(made.path, columns=["id"], memory_budget=20)
    assert len(blocks(small, 1)[0]) > ROWS // 5
    sizes = [task.metadata.size_bytes for task in source.get_read_tasks(2)]
    assert (
        sum(sizes)
        == source.estimate_inmemory_data_size()
        == sum(p.stat().st_size for p in made.table.path.glob("*f*_*"))
    )
    assert source.instant is not None


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"block_rows": 0}, errors.InvalidArgumentError, "block_rows must be a whole number, 1 or more, not 0"),
        ({"blobs": ["id"]}, errors.InvalidTypeError, "column 'id' of '{table}' is no BLOB; its BLOB columns are img"),
        (
            {"column": ["id"]},
            errors.InvalidTypeError,
            "HudiDatasource has no argument 'column'; did you mean 'columns'?",
        ),
    ],
)
def test_wrong_input(made: Photos, arguments: dict, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        datasource(made.path, **arguments)
    assert str(caught.value) == sentence.format(table=made.path)
