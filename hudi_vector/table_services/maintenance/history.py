"""What the upkeep of a table did, run by run, and what its blobs took then.

The history is the newest whole side file of ``{table}/.hoodie/blob_service/v1/maintenance/``. Each run that did
something adds itself and publishes the whole anew, thinned: of what is older than a month one run a day stays, and no
more than 2,000 in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.side_files import forget_before, generation_of, newest, publish
from hudi_vector.storage.stored_values import shaped
from hudi_vector.table_services.maintenance.figures import Figures

__all__ = ["MAINTENANCE", "History", "Run", "StepOutcome", "add_run", "read_history"]

MAINTENANCE = ".hoodie/blob_service/v1/maintenance"
DONE, DUE, NOTHING, NOT_DUE, REFUSED, FAILED = "done", "due", "nothing to do", "not due", "refused", "failed"

_KIND, _VERSION = "maintenance", 1
_LOCAL = StorageOptions()
_DAY_MS = 86_400_000
_WHOLE_MS = 30 * _DAY_MS
_MOST_RUNS = 2000
_FILES_KEPT = 2  # a reader may have listed the one before


@dataclass(frozen=True)
class StepOutcome:
    """What came of a step.

    Attributes:
        step: Its name.
        state: ``done``, ``nothing to do``, ``not due``, ``refused`` or ``failed``; ``due`` where a dry run left it.
        text: What it did, or why it did not.
        seconds: How long it took.
    """

    step: str
    state: str
    text: str = ""
    seconds: float = 0.0

    @property
    def is_well(self) -> bool:
        """Whether it did what was to be done."""
        return self.state not in (REFUSED, FAILED)


@dataclass(frozen=True)
class Run:
    """A run: when it began (milliseconds since 1970, UTC), what its steps did, and the figures where it took them."""

    begun_ms: int
    steps: tuple[StepOutcome, ...] = ()
    figures: Figures | None = None


@dataclass(frozen=True)
class History:
    """The runs of a table, the oldest first, and when each step last began that ended well."""

    runs: tuple[Run, ...] = ()
    last: Mapping[str, int] | None = None

    def is_due(self, step: str, interval_ms: int, now_ms: int) -> bool:
        """Whether a step has not ended well for as long as its interval; so it has where the clock went back.

        Args:
            step: Its name.
            interval_ms: How often it is to run, milliseconds.
            now_ms: The time.
        """
        last = (self.last or {}).get(step)
        return last is None or not last <= now_ms < last + interval_ms

    def with_run(self, run: Run) -> History:
        """The history with one more run, thinned.

        Args:
            run: The newest.

        Example:
            >>> History().with_run(Run(5, (StepOutcome("clean_blobs", "done"),))).last
            {'clean_blobs': 5}
        """
        ended = {each.step: run.begun_ms for each in run.steps if each.is_well and each.state != NOT_DUE}
        return History(_thinned([*self.runs, run], run.begun_ms), {**(self.last or {}), **ended})


def read_history(table: str, options: StorageOptions = _LOCAL) -> History:
    """The history of a table; an empty one where there is none.

    Args:
        table: The table's base path.
        options: How storage is opened.

    Raises:
        DataFileError: It says what no history says.
        UnsupportedTableError: Another version of this package wrote it.
    """
    return _read(table, options)[0]


def add_run(table: str, run: Run, options: StorageOptions = _LOCAL) -> History:
    """Make a run durable.

    Args:
        table: The table's base path.
        run: The run.
        options: How storage is opened.

    Returns:
        The history with it.
    """
    before, generation = _read(table, options)
    history = before.with_run(run)
    root = normalise(table)
    storage, folder = open_storage(root, options), join(root, MAINTENANCE)
    publish(storage, folder, _KIND, _VERSION, generation + 1, asdict(history))
    forget_before(storage, folder, generation + 2 - _FILES_KEPT)
    return history


def _read(table: str, options: StorageOptions) -> tuple[History, int]:
    root = normalise(table)
    folder = join(root, MAINTENANCE)
    found = newest(open_storage(root, options), folder, _KIND, _VERSION)
    if found is None:
        return History(), -1
    return shaped(History, found[1], folder), generation_of(found[0])


def _thinned(runs: Iterable[Run], now_ms: int) -> tuple[Run, ...]:
    """All runs of the last month, and of each day before it the last one that has figures, without its steps' texts."""
    recent, daily = [], {}
    for run in runs:
        if run.begun_ms > now_ms - _WHOLE_MS:
            recent.append(run)
        elif run.figures is not None:
            daily[run.begun_ms // _DAY_MS] = replace(run, steps=())
    return (*daily.values(), *recent)[-_MOST_RUNS:]
