"""How long random histories go on, and how a failure among them becomes a short one."""

from __future__ import annotations

import itertools
import random

import pytest
from support.soak import Soak, minimal


def test_seeds_follow_the_first_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(Soak(123).seeds(3)) == [123, 124, 125]
    assert capsys.readouterr().out == "SOAK_SEED=123\nSOAK_SEED=124\nSOAK_SEED=125\n"


def test_histories_go_on_until_the_time_is_over() -> None:
    clock = itertools.count(1000, 25)
    assert list(Soak(5, minutes=2).seeds(2, lambda: next(clock))) == [5, 6, 7, 8, 9]
    assert list(Soak(5, minutes=0).seeds(2)) == [5], "one history is always run: that of a failure"


def test_the_variables_of_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOAK_SEED", "7")
    monkeypatch.setenv("SOAK_MINUTES", "30")
    assert Soak.told() == Soak(7, 30)
    monkeypatch.setenv("SOAK_SEED", "")
    monkeypatch.delenv("SOAK_MINUTES")
    assert Soak.told().minutes is None
    assert len({Soak.told().seed for _ in range(10)}) > 1


@pytest.mark.parametrize("seed", range(20))
def test_a_failure_is_told_in_few_steps(seed: int) -> None:
    """A fault that takes some steps in their order is found as these steps alone, within so many tries."""
    choice = random.Random(seed)
    history = [choice.randrange(100) for _ in range(25)]
    needed = sorted(choice.sample(range(25), choice.randint(1, 3)))
    wanted, tried = [history[at] for at in needed], itertools.count()

    def fails(steps: list[int]) -> bool:
        next(tried)
        left = iter(steps)
        return all(step in left for step in wanted)

    assert minimal(history, fails, tries=200) == wanted
    assert next(tried) <= 100
    assert fails(minimal(history, fails, tries=3))


def test_a_history_that_needs_nothing_becomes_empty() -> None:
    assert minimal([1, 2, 3], lambda steps: True, tries=50) == []
    assert minimal([], lambda steps: True, tries=50) == []
