"""The time limit of a search: what it counts, what it says, and how it crosses to another process."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from support.opened import found_in
from support.written_table import WrittenTable, rows_of

from hudi_vector.errors import HudiVectorError, InvalidOptionError, SearchTimeoutError
from hudi_vector.kernels.topk import Bounds
from hudi_vector.query import deadline as module
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.query.execute import Question, search_slice
from hudi_vector.query.hybrid.question import HybridColumn, HybridQuestion
from hudi_vector.query.hybrid.run import HybridAsked
from hudi_vector.query.join.held import HeldSide, as_content
from hudi_vector.query.join.sides import PlannedSide
from hudi_vector.query.local import run_local
from hudi_vector.query.opened.request import Found
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.report import Progress
from hudi_vector.query.tuning import checked_tuning
from hudi_vector.read.spec import VectorColumn

QUERY = [0.3, -0.2, 0.9, 0.1]
ASKED = np.array([QUERY])
AT_ONCE = 1e-9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_it_ends_with_what_was_done(clock: list[float]) -> None:
    deadline = Deadline("products", 2.5, slices=7)
    deadline.check(rows=1000)
    clock[0] = 102.5
    deadline.check(rows=234, slices=1)
    clock[0] = 102.51
    with pytest.raises(SearchTimeoutError) as late:
        deadline.check(rows=1)
    assert str(late.value) == (
        "the search of 'products' did not end within 2.5 seconds; 1 of 7 file slices and 1,235 rows were searched until "
        "then; give it more time by hoodie.vector.search.timeout or the argument timeout, or less to read by an index or "
        "a filter"
    )
    assert isinstance(late.value, (HudiVectorError, TimeoutError))


def test_the_time_counts_from_when_the_search_began(clock: list[float]) -> None:
    Deadline("t", 5.0, begun=95.0).check()
    with pytest.raises(SearchTimeoutError):
        Deadline("t", 5.0, begun=94.9).check()


def test_another_process_gets_the_time_that_is_left(clock: list[float]) -> None:
    deadline = Deadline("t", 10.0, slices=3)
    clock[0] = 106.0
    packed = pickle.dumps(deadline)
    clock[0] = 5000.0  # the clock of another machine
    there = pickle.loads(packed)
    clock[0] = 5004.0
    there.check(slices=2)
    clock[0] = 5004.1
    with pytest.raises(SearchTimeoutError, match="within 10 seconds; 2 of 3 file slices and 0 rows"):
        there.check()


def test_without_a_limit_it_never_ends() -> None:
    NEVER.check(rows=5)
    pickle.loads(pickle.dumps(NEVER)).check()
    Deadline("t", None, begun=time.monotonic() - 1e9).check()


@pytest.fixture
def plan(tmp_path: Path) -> SearchPlan:
    table = WrittenTable(tmp_path / "t")
    table.commit({("a", "f1"): rows_of(20), ("a", "f2"): rows_of(20, first=20)})
    return replace(found_in(table.path, QUERY, 3, metric="l2").plan, timeout=AT_ONCE)


def test_each_way_to_run_a_plan_looks_at_it(plan: SearchPlan) -> None:
    question = Question(ASKED, "l2", 3)
    hybrid = HybridQuestion((HybridColumn(plan.spec.column, "l2", 1.0),), (ASKED,), 3)
    for run in (
        lambda: run_local(plan, question, {}, Progress()),
        lambda: run_local(plan, HybridAsked.of(hybrid), {}, Progress()),
        lambda: PlannedSide(plan).find(question, None, ["id"]),
    ):
        with pytest.raises(SearchTimeoutError, match=r"within 1e-09 seconds; \d of 2 file slices and [24]0 rows"):
            run()
    without = replace(plan, timeout=None)
    assert len(run_local(without, question, {}, Progress())) == 3


def test_columns_of_the_rows_found_are_read_within_it(plan: SearchPlan, clock: list[float]) -> None:
    in_time, progress = replace(plan, timeout=5.0), Progress(begun=clock[0])
    found = Found(in_time, run_local(in_time, Question(ASKED, "l2", 3), {}, progress), progress, {}, ASKED)
    assert len(found.columns(["id"])["id"]) == 3
    clock[0] += 6
    with pytest.raises(SearchTimeoutError, match="within 5 seconds; 2 of 2 file slices and 40 rows were searched"):
        found.columns(["id"])


def test_a_slice_is_left_within_it_and_not_behind_it(plan: SearchPlan, clock: list[float]) -> None:
    deadline = Deadline("t", 1.0, slices=2)
    question, bounds = Question(ASKED, "l2", 3, deadline=deadline), Bounds.of(1, None)
    search_slice(0, plan.slices[0], plan.spec, question, bounds, keep=False)
    clock[0] += 2
    with pytest.raises(SearchTimeoutError, match="1 of 2 file slices and 40 rows were searched until then"):
        search_slice(1, plan.slices[1], plan.spec, question, bounds, keep=False)


def test_rows_in_memory_are_searched_within_it() -> None:
    table = pa.table({"v": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))})
    late = Deadline("the right side", AT_ONCE, begun=time.monotonic() - 1)
    content = SimpleNamespace(value=as_content(table))
    side = HeldSide(content, "one row", VectorColumn("v", 2, "float", False), "UTC")
    assert len(side.find(Question(np.ones((1, 2)), "l2", 1), None, ["v"]).query) == 1
    with pytest.raises(
        SearchTimeoutError, match="the search of 'the right side' did not end within 1e-09 seconds; give"
    ):
        side.find(Question(np.ones((1, 2)), "l2", 1, deadline=late), None, ["v"])


def test_the_argument_counts_before_the_setting() -> None:
    conf = {"hoodie.vector.search.timeout": "2 s"}
    given = {name: checked_tuning(timeout=name).settled(conf).timeout for name in ("30s", "500 ms", 1500, "0", None)}
    assert given == {"30s": 30.0, "500 ms": 0.5, 1500: 1.5, "0": None, None: 2.0}
    assert checked_tuning().settled({}).timeout is None
    with pytest.raises(InvalidOptionError, match=r"hoodie\.vector\.search\.timeout"):
        checked_tuning().settled({"hoodie.vector.search.timeout": "soon"})
