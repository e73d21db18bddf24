"""What the cleaner's services hand back, and how the command shows it."""

from __future__ import annotations

import json

import pytest

from hudi_vector.command.endings import show_result
from hudi_vector.table_services.result import CleanFile, CleanResult, RestoreResult, report_lines

A, B, C, D = (CleanFile(name, size, why) for name, size, why in [
    ("a", 1, "unneeded"), ("b", 20, "unneeded"), ("c", 300, "unneeded"), ("d", 4000, "a row refers to it")
])  # fmt: skip
FAILED = CleanFile("c", 300, "it could not be taken away: no")
WAITS = CleanFile("b", 20, "it waits")
SWEPT = CleanResult("/t", [A, B, C], [A], [D, WAITS], [FAILED], bytes=1, sweep_id="S", report="/t/r", mark_id="M")


def actions(result: CleanResult | RestoreResult) -> list[tuple[str, str]]:
    return [(row["path"], row["action"]) for row in result.rows()]


def test_each_file_has_one_row() -> None:
    assert actions(SWEPT) == [("a", "trash"), ("b", "keep"), ("c", "failed"), ("d", "keep")]
    assert SWEPT.rows()[0] == {"path": "a", "bytes": 1, "action": "trash", "reason": "unneeded"}
    assert actions(CleanResult("/t", [A], [A], trash=False)) == [("a", "delete")]
    assert actions(CleanResult("/t", [A], trash=None)) == [("a", "unneeded")]
    assert actions(CleanResult("/t", [], expired=[A])) == [("a", "expire")]
    assert actions(RestoreResult("/t", [B], [A], 20)) == [("a", "keep"), ("b", "restore")]
    assert CleanResult("/t", []).rows() == []


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (SWEPT, ["1 file (1 byte) moved to the trash by sweep S, 2 kept, 1 failed", "report: /t/r"]),
        (CleanResult("/t", []), ["0 files (0 bytes) moved to the trash, 0 kept"]),
        (CleanResult("/t", [A], [A], bytes=1, trash=False, sweep_id="S"),
         ["1 file (1 byte) deleted by sweep S, 0 kept"]),
        (CleanResult("/t", [A, B], kept=[WAITS], bytes=1, dry_run=True, expired=[D]),
         ["1 file (1 byte) would go to the trash, 1 kept", "1 file (4000 bytes) would leave the trash for good"]),
        (CleanResult("/t", [A], bytes=1, dry_run=True, trash=False, refusal="too much"),
         ["the run would be refused: too much", "1 file (1 byte) would go for good, 0 kept"]),
        (CleanResult("/t", [], kept=[D], trash=None, mark_id="M", doubts=("x is broken",), notes=("y is old",)),
         ["nothing may go: x is broken", "note: y is old", "0 files (0 bytes) unneeded, found by mark M, 1 kept"]),
        (CleanResult("/t", [], expired=[A, B]),
         ["0 files (0 bytes) moved to the trash, 0 kept", "2 files (21 bytes) left the trash for good"]),
        (RestoreResult("/t", [A, B], [C], 21), ["2 files (21 bytes) restored, 1 stay in the trash"]),
    ],
)  # fmt: skip
def test_what_an_operator_reads(result: CleanResult | RestoreResult, lines: list[str]) -> None:
    assert list(report_lines(result)) == lines


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (CleanResult("/t", []), 0),
        (CleanResult("/t", [A], [A], [D], bytes=1), 0),
        (CleanResult("/t", [A], kept=[WAITS], bytes=1), 0),
        (SWEPT, 1),
        (CleanResult("/t", [], doubts=("x is broken",)), 1),
        (CleanResult("/t", [A], dry_run=True, refusal="too much"), 3),
        (CleanResult("/t", [A], doubts=("x is broken",), dry_run=True, refusal="too much"), 1),
        (RestoreResult("/t", [], [], 0), 0),
        (RestoreResult("/t", [], [A], 0), 1),
    ],
)
def test_exit_codes(result: CleanResult | RestoreResult, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_result(result, "json") == code
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == result.rows()
    assert err.splitlines() == [f"hudi-vector: {line}" for line in report_lines(result)]


def test_rows_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_result(RestoreResult("/t", [B], [], 20), "table") == 0
    assert capsys.readouterr().out == "path  bytes  action   reason\nb      20 B  restore  unneeded\n"
