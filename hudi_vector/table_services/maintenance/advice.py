"""Advice to operators about steps of a maintenance run that were refused or failed."""

from __future__ import annotations

import shlex

from hudi_vector.table_services.maintenance.history import REFUSED, StepOutcome

__all__ = ["advice"]

_WAIT = (
    "Nothing, if it does not last: the step runs again with the next maintenance run. If it lasts, look for a job that "
    "hangs."
)
_LOCK = (
    "Set the lock that the table's writers use (hoodie.write.concurrency.mode and hoodie.write.lock.provider). If no "
    "other job writes to the table, set hoodie.blob.maintain.assume.single.writer to true instead."
)
_SHARE = "See what would go: `{clean} --dry-run`. If that is right, run `{clean}` once with a larger `--max-share`."
_DOUBT = (
    "Nothing is deleted while a file is in doubt. Mend or remove what the text names, then see `{clean} --dry-run`."
)
_BY_TEXT = {
    "is under way": _WAIT,
    "lost its lease": _WAIT,
    "when less is written": _WAIT,
    "did not complete": _WAIT,
    "assume_single_writer": _LOCK,
    "bytes in the blob area would go": _SHARE,
    "nothing may go": _DOUBT,
}
"""By a part of the sentence with which a service refused."""
_OF_STEPS = {
    "clean_blobs": "Mend what the text names, then see `{clean} --dry-run`.",
    "compact_blobs": "Mend what the text names, then see `{command} compact-blobs --table {table} --dry-run`.",
    "cluster": "Mend what the text names, then see `{command} cluster --table {table} --dry-run`.",
    "index": "Check the index of each column: `{command} index verify --table {table} --column NAME`.",
}
_FAILED = "The other steps ran, and this one is tried again at the next run. The log of the run has the whole error."
_ALONE = " To run it now: `{command} maintain --table {table} --step {step}`."


def advice(outcome: StepOutcome, table: str) -> str:
    """Return what to do about a step that did not end well, in one to three sentences.

    `table` is the path of the table, for commands, which have backticks around them.
    """
    said = _FAILED
    if outcome.state == REFUSED:
        found = next((text for part, text in _BY_TEXT.items() if part in outcome.text), None)
        said = found or _OF_STEPS.get(outcome.step, "Mend what the text names.")
    if outcome.step != "end_killed_runs":
        said += _ALONE
    command, step, quoted = "hudi-vector", outcome.step.replace("_", "-"), shlex.quote(table)
    return said.format(command=command, clean=f"{command} clean-blobs --table {quoted}", table=quoted, step=step)
