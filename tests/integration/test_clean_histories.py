"""Lives of real tables with the cleaner at work: see `support.clean_life`."""

from __future__ import annotations

import re
from functools import partial

import pytest
from support import tables
from support.blobs import stored
from support.clean_life import OPTIONS, Life, play, random_steps
from support.soak import minimal

METADATA = {**OPTIONS, "hoodie.metadata.enable": "true"}
FAILURES = (Exception, pytest.fail.Exception)


def test_a_short_life(spark, workspace):
    life = Life(spark, tables.fresh_path(workspace, "life"), "mor")
    for number, step in enumerate(("save", "delete", "killed", "compact", "hudi_clean", "write", "roll_back", "clean")):
        life.step(step, number)
    life.end()


@pytest.mark.hudi_defaults
def test_a_copy_on_write_life(spark, workspace):
    """As users have it who set nothing."""
    life = Life(spark, tables.fresh_path(workspace, "life"), "cow")
    for number, step in enumerate(("write", "delete", "cluster", "repack", "hudi_clean", "write", "clean")):
        life.step(step, number)
    life.end()
    properties = (life.path / ".hoodie/hoodie.properties").read_text()
    assert re.search(r"^hoodie\.table\.metadata\.partitions=(.*,)?files\b", properties, re.MULTILINE)


def test_a_life_with_the_metadata_table_and_a_rollback_that_hudi_does_not_end(spark, workspace, clean_session):
    """Hudi lists files by its metadata table, ours by the folders: both know the same.

    What Hudi had undone stays undone: the rows of before are there, and the cleaner takes what nobody needs.
    """
    life = Life(spark, tables.fresh_path(workspace, "life"), "mor", METADATA)
    for number, step in enumerate(("write", "delete", "write", "repack", "compact", "hudi_clean", "clean")):
        life.step(step, number)
    assert stored(spark, life.path) == life.model
    properties = (life.path / ".hoodie/hoodie.properties").read_text()
    assert re.search(r"^hoodie\.table\.metadata\.partitions=(.*,)?files\b", properties, re.MULTILINE)
    life.step("overwrite", 2)
    spark.conf.set("hoodie.metadata.compact.max.delta.commits", "1")
    for number, step in enumerate(("roll_back", "clean", "give_back", "hudi_clean")):
        life.step(step, number)
    assert life.is_stuck
    life.end()


@pytest.mark.soak
@pytest.mark.parametrize(("table_type", "options"), [("cow", OPTIONS), ("mor", OPTIONS), ("mor", METADATA)])
def test_long_lives(spark, workspace, soak, table_type, options):
    def begun():
        return Life(spark, tables.fresh_path(workspace, "life"), table_type, options)

    for seed in soak.seeds(10):
        life = begun()
        try:
            play(life, random_steps(life, seed, 25))
        except FAILURES as problem:
            shortest = minimal(life.history, partial(fails, begun, type(problem)), tries=30)
            pytest.fail(f"SOAK_SEED={seed}, {table_type}, {options}: {problem!r} after {shortest}")


def fails(begun, kind, steps):
    """Whether such a life fails in the same way."""
    try:
        play(begun(), steps)
    except FAILURES as problem:
        return type(problem) is kind
    return False
