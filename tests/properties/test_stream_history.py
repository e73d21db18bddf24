"""Any history of a table, any times of rows: each row is answered from what was visible then, and at the batch's moment."""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stream_tasks import answered, now, stream_search
from support.written_table import WrittenTable, brute_force, rows_of

_BEGINS = datetime(2026, 1, 1, tzinfo=timezone.utc)
_VECTORS = np.random.default_rng(1).standard_normal((40, 4)).astype(np.float32)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=6),
    st.lists(st.integers(0, 16) | st.none(), min_size=1, max_size=12),
    st.integers(0, 6),
)
def test_rows_see_what_was_visible(commits, seconds, seen_commits):
    with tempfile.TemporaryDirectory() as folder:
        table = WrittenTable(Path(folder) / "t", partitioned=False)
        files: dict[int, list] = {}
        states, moments = [(table.clock, {})], [now(table)]
        for number, (file, rows) in enumerate(commits):
            files = {**files, file: rows_of(rows, "a", number, first=100 * file)}
            instant = table.next_instant()
            table.write_base("a", f"f{file}", instant, files[file])
            table.begin(instant)
            states.append((int(table.complete(instant)), files))
            moments.append(now(table))
        moment = moments[min(seen_commits, len(commits))]
        visible = [(done, held) for done, held in states if str(done) <= (moment.completed or str(states[0][0]))]
        asked = [
            {"number": n, "v": _VECTORS[n].tolist(), "at": None if s is None else _BEGINS + timedelta(seconds=s)}
            for n, s in enumerate(seconds)
        ]
        answer = answered(stream_search(table, k=3, on_time=True), asked, moment)
        for event in asked:
            held = {}
            if event["at"] is not None:
                digits = int(event["at"].strftime("%Y%m%d%H%M%S000"))
                held = [held for done, held in visible if done <= digits][-1]
            expected = brute_force([row for rows in held.values() for row in rows], event["v"], 3)
            got = [row["id"] for row in answer if row["number"] == event["number"] and row["_rank"]]
            assert got == [int(key) for _, key, _ in expected]
