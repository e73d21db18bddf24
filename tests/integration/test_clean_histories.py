"""Lives of real tables with the cleaner at work: see `support.clean_life`."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from support import tables
from support.clean_life import Life


def test_a_short_life(spark, workspace):
    life = Life(spark, tables.fresh_path(workspace, "life"), "mor", seed=1)
    for step in ("save", "delete", "killed", "compact", "hudi_clean", "write", "roll_back", "clean"):
        life.step(step)
    life.end()


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("seed", range(10))
def test_long_lives(spark, workspace, table_type, seed):
    life = Life(spark, tables.fresh_path(workspace, "life"), table_type, seed)
    for _ in range(25):
        life.step(life.choice.choice(life.steps()))
    try:
        if life.saved:
            life.step("restore")
    except Py4JJavaError as problem:
        # Hudi 1.2 fails so at times, and leaves the restore pending; what is retained must read back all the same.
        assert "Unable to find completion time for instant" in str(problem)
        life.check()
        return
    life.end()
