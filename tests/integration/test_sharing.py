"""Two real tables, one of which refers to blobs of the other."""

from __future__ import annotations

import json

import pytest
from support import tables
from support.blobs import QUICK, content, got, rows, stored, write

import hudi_vector as hv
from hudi_vector.blobs.registry import LEFT, enter
from hudi_vector.command.main import main
from hudi_vector.errors import InvalidBlobError, RefusedError

OUT = {"img": {"inline.threshold": "0"}}


def test_a_table_that_borrows_blobs(spark, workspace, capsys):
    photos, albums = tables.fresh_path(workspace, "photos"), tables.fresh_path(workspace, "albums")
    write(rows(spark, [500] * 3), photos, blobs=OUT)
    write(rows(spark, [None], ts=1), albums, blobs=OUT)
    borrowed = spark.read.format("hudi").load(str(photos)).where("id < 2")
    with pytest.raises(InvalidBlobError, match="write the bytes instead, or register both tables with register_tables"):
        write(borrowed, albums)
    services = hv.table_services

    given = ["--table", str(photos), "--format", "json"]
    assert main(["register-tables", *given, "--with", str(albums)]) == 0
    assert json.loads(capsys.readouterr().out) == {"table": f"file://{albums}"}
    assert services.registered_tables(spark, str(albums)) == [f"file://{photos}"]
    assert services.registered_tables(spark, str(albums)).rows() == [{"value": f"file://{photos}"}]
    write(borrowed, albums)
    expected = {i: content(i + 1000, 500) for i in range(2)}
    assert got(albums) == expected
    assert hv.blobs.verify(None, str(albums)).to_pylist() == []

    write(rows(spark, [500] * 3, ts=1).where("id = 2"), photos, blobs=OUT)
    moved = services.compact_blobs(spark, str(photos), live_threshold=100, assume_single_writer=True, options=QUICK)
    assert (len(moved.candidates), len(moved.released), moved.reclaimable_bytes) == (2, 1, 500)
    assert "another table refers to" in moved.notes[0]
    assert got(albums) == expected

    # The photos lose their data files; what the albums need stays.
    for file in photos.rglob("*.parquet"):
        if ".hoodie" not in file.relative_to(photos).parts:
            file.unlink()
    result = services.clean_blobs(spark, str(photos), grace="0s", max_share=100)
    assert {str(albums) in file.reason for file in result.kept} == {True}
    assert result.doubts == ()
    assert stored(spark, albums) == expected

    with pytest.raises(RefusedError, match="cannot leave the registry of"):
        services.unregister_tables(spark, str(photos), [str(albums)])
    assert main(["unregister-tables", *given, "--with", str(albums)]) == 3
    assert "refers to" in capsys.readouterr().err
    assert main(["registered-tables", *given]) == 0
    assert json.loads(capsys.readouterr().out) == {"table": f"file://{albums}"}
    assert services.registered_tables(spark, str(photos)) == [f"file://{albums}"]
    enter(str(photos), str(albums), LEFT)
    found = hv.blobs.verify(spark, str(albums)).collect()
    assert {(row["key"], row["problem"]) for row in found} == {("0", "foreign"), ("1", "foreign")}
