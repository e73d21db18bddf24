"""The history of a table's maintenance: the outcome of each run, and the figures that it took.

The history is the newest whole side file of ``{table}/.hoodie/blob_service/v1/maintenance/``. Each run that did
something publishes the whole history again with itself added. The history is thinned: of the time before the last 30
days one run per day is kept, and no more than 2,000 runs in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import forget_before
from hudi_vector.table_services.maintenance.figures import Figures

__all__ = ["MAINTENANCE", "History", "Run", "StepOutcome", "add_run", "read_history"]

MAINTENANCE = ".hoodie/blob_service/v1/maintenance"
DONE, DUE, NOTHING, NOT_DUE, REFUSED, FAILED = "done", "due", "nothing to do", "not due", "refused", "failed"

_LOCAL = StorageOptions()
_DAY_MS = 86_400_000
_WHOLE_MS = 30 * _DAY_MS
_MOST_RUNS = 2000
_FILES_KEPT = 2  # a reader may have listed the previous file and not read it yet


@dataclass(frozen=True)
class StepOutcome:
    """The outcome of one step of a maintenance run.

    Attributes:
        step: The name of the step.
        state: ``done``, ``nothing to do``, ``not due``, ``refused`` or ``failed``; ``due`` if a dry run found work.
        text: What the step did, or why it did nothing.
        seconds: How long the step took.
    """

    step: str
    state: str
    text: str = ""
    seconds: float = 0.0

    @property
    def is_well(self) -> bool:
        """Return True if the step was neither refused nor failed."""
        return self.state not in (REFUSED, FAILED)


@dataclass(frozen=True)
class Run:
    """A maintenance run: its begin (milliseconds since 1970, UTC), its steps, and the figures if it took any."""

    begun_ms: int
    steps: tuple[StepOutcome, ...] = ()
    figures: Figures | None = None


@dataclass(frozen=True)
class History:
    """The runs of a table, the oldest first.

    `last` has, for each step, the begin of the last run in which the step ended well, in milliseconds since 1970, UTC.
    """

    runs: tuple[Run, ...] = ()
    last: Mapping[str, int] | None = None

    def is_due(self, step: str, interval_ms: int, now_ms: int) -> bool:
        """Return True if `interval_ms` has passed since the begin of the last run in which the step ended well.

        A step that never ended well is due. If the clock went back so that the last run is in the future, the step is
        due too.
        """
        last = (self.last or {}).get(step)
        return last is None or not last <= now_ms < last + interval_ms

    def with_run(self, run: Run) -> History:
        """Return the history with one more run, thinned.

        Example:
            >>> History().with_run(Run(5, (StepOutcome("clean_blobs", "done"),))).last
            {'clean_blobs': 5}
        """
        ended = {each.step: run.begun_ms for each in run.steps if each.is_well and each.state != NOT_DUE}
        return History(_thinned([*self.runs, run], run.begun_ms), {**(self.last or {}), **ended})


_HISTORY = Record("maintenance", 1, History)


def read_history(table: str, options: StorageOptions = _LOCAL) -> History:
    """Return the history of a table, which is empty if none was published.

    Raise DataFileError if the history is damaged, and UnsupportedTableError if another version of this package wrote
    it.
    """
    return _read(table, options)[0]


def add_run(table: str, run: Run, options: StorageOptions = _LOCAL) -> History:
    """Publish the history with one more run, remove older side files, and return the new history."""
    before, generation = _read(table, options)
    history = before.with_run(run)
    root = normalise(table)
    storage, folder = open_storage(root, options), join(root, MAINTENANCE)
    _HISTORY.publish(storage, folder, history, generation + 1)
    forget_before(storage, folder, generation + 2 - _FILES_KEPT)
    return history


def _read(table: str, options: StorageOptions) -> tuple[History, int]:
    root = normalise(table)
    found = _HISTORY.newest(open_storage(root, options), join(root, MAINTENANCE))
    return (History(), -1) if found is None else (found.value(), found.generation)


def _thinned(runs: Iterable[Run], now_ms: int) -> tuple[Run, ...]:
    """Return the runs of the last 30 days, and for each earlier day its last run with figures, without its steps."""
    recent, daily = [], {}
    for run in runs:
        if run.begun_ms > now_ms - _WHOLE_MS:
            recent.append(run)
        elif run.figures is not None:
            daily[run.begun_ms // _DAY_MS] = replace(run, steps=())
    return (*daily.values(), *recent)[-_MOST_RUNS:]
