"""The mapping of what was used last: how many entries it holds, and how heavy ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.table.recent import Recent


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40))))
def test_the_newest_entries_that_weigh_little_enough_are_kept(puts: list[tuple[int, int]]) -> None:
    recent: Recent[int, int] = Recent(4, lambda value: value, 50)
    model: dict[int, int] = {}
    for key, value in puts:
        recent.put(key, value)
        model.pop(key, None)
        model[key] = value
        while len(model) > 4 or (sum(model.values()) > 50 and len(model) > 1):
            del model[next(iter(model))]
        if key % 3 == 0 and value % 5 == 0:
            recent.forget(lambda one, gone=key: one == gone)
            del model[key]
    assert {key: found for key in range(10) if (found := recent.get(key)) is not None} == model
