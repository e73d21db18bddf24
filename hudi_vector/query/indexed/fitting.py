"""The check that a plan's segments match the present files; slices whose segment does not match are scanned.

Each base file is compared with its segment once per process, by the footer. A segment that cannot be read is not used
for a minute, since a refresh may repair it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hudi_vector.index.calibration.held_out import Each
from hudi_vector.index.load import damaged_segments
from hudi_vector.index.verified import is_as_indexed, was_as_indexed
from hudi_vector.query.plan import Entry, IndexUse, SliceAccess
from hudi_vector.read.spec import ScanSpec

__all__ = ["fitting", "without_damaged"]

_LOG = logging.getLogger("hudi_vector.search")
_SECONDS = 60.0

# The time (monotonic) until which a segment is not used, by index folder and segment.
_DAMAGED: dict[tuple[str, str], float] = {}


def fitting(entries: Sequence[Entry], use: IndexUse, spec: ScanSpec, each: Each = map) -> list[Entry]:
    """Return the slices of a plan, without segments that belong to other files or were lately found damaged.

    An entry is a slice with its place in the plan. `each` applies a function to the files that are not yet compared.
    """
    verdicts = [_known(use, access) for _, access in entries]
    if None in verdicts:
        unknown = [number for number, verdict in enumerate(verdicts) if verdict is None]
        for number, verdict in zip(unknown, each(partial(_compared, spec), [entries[n] for n in unknown]), strict=True):
            verdicts[number] = verdict
    if all(verdicts):
        return list(entries)
    wrong = [entry[1] for entry, good in zip(entries, verdicts, strict=True) if not good]
    _LOG.warning(
        "%d of %d slices are scanned although the index '%s' has segments for them, '%s' the first: the files were "
        "rewritten since, which hudi_vector.index.refresh repairs, or the segments are damaged, which refresh(…, "
        "deep=True) or --deep of its command repairs; hudi_vector.index.verify says which",
        len(wrong),
        len(entries),
        use.name,
        wrong[0].file_slice.base_file.uri if wrong[0].file_slice.base_file else "",
    )
    return [entry if good else _uncovered(entry) for entry, good in zip(entries, verdicts, strict=True)]


def without_damaged(entries: Sequence[Entry], use: IndexUse, spec: ScanSpec) -> list[Entry]:
    """Return the slices whose segments can be read; an unreadable segment is not tried again for a minute.

    All entries must have a segment. Unreadable segments are logged as warnings.
    """
    segments = [access.segment for _, access in entries if access.segment is not None]
    wrong = damaged_segments(use.folder, use.model_id, segments, spec.options)
    for name, reason in wrong.items():
        _LOG.warning(
            "a segment of an index cannot be read, its file is scanned: %s; see hudi_vector.index.verify", reason
        )
        _DAMAGED[use.folder, name] = time.monotonic() + _SECONDS
    return [entry for entry in entries if entry[1].segment is not None and entry[1].segment.segment not in wrong]


def _known(use: IndexUse, access: SliceAccess) -> bool | None:
    """Return whether a slice's segment matches its file, True without a segment, None if it was not compared yet."""
    segment, base = access.segment, access.file_slice.base_file
    if segment is None or base is None:
        return True
    if _DAMAGED and time.monotonic() < _DAMAGED.get((use.folder, segment.segment), 0.0):
        return False
    return was_as_indexed(base, segment)


def _compared(spec: ScanSpec, entry: Entry) -> bool:
    base, segment = entry[1].file_slice.base_file, entry[1].segment
    assert base is not None
    assert segment is not None
    return is_as_indexed(base, segment, spec.options)


def _uncovered(entry: Entry) -> Entry:
    # The whole segment is dropped: its key hashes do not belong to this file either.
    return entry[0], replace(entry[1], segment=None)
