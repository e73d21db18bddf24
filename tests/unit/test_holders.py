"""Whether a Parquet file holds a value in a column: by its footer, or by the values where that does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_vector.vectors.holders import _in_parquet

VECTOR, LIST = pa.binary(8), pa.list_(pa.float32())


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None, None, None, None], VECTOR),
        ([None, None, None, b"12345678"], VECTOR),
        ([b"12345678"] * 4, VECTOR),
        ([None, None, None, None], LIST),
        ([None, None, None, [1.0, 2.0]], LIST),
        ([[1.0, None], [None, 1.0], None, None], LIST),  # as many NULLs as rows in each row group
        ([[1.0, None], [None, 1.0], [1.0, None], [None, 1.0]], LIST),
        ([], LIST),
    ],
)
def test_a_file_with_any_value_holds_the_column(
    values: list[Any], kind: pa.DataType, statistics: bool, tmp_path: Path
) -> None:
    table = pa.table({"id": range(len(values)), "emb": pa.array(values, kind)})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=2, write_statistics=statistics)
    held = any(value is not None for value in values)
    assert _in_parquet(pa.OSFile(str(tmp_path / "f.parquet")), "emb") == held
    assert not _in_parquet(pa.OSFile(str(tmp_path / "f.parquet")), "other")
