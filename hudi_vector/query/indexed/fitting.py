"""Which segments of a plan hold for the files that are there: others cover nothing, and their files are scanned.

A base file is compared with its segment once in a process, by the footer. A segment that cannot be read is left out for
a while, since a refresh may mend it.
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
from hudi_vector.query.plan import IndexUse, SliceAccess
from hudi_vector.read.spec import ScanSpec

__all__ = ["Entry", "fitting", "without_damaged"]

_LOG = logging.getLogger("hudi_vector.search")
_SECONDS = 60.0

Entry = tuple[int, SliceAccess]

# Until when.
_DAMAGED: dict[tuple[str, str], float] = {}


def fitting(entries: Sequence[Entry], use: IndexUse, spec: ScanSpec, each: Each = map) -> list[Entry]:
    """The slices of a plan, without the segments that are of other files or were found damaged just now.

    Args:
        entries: The slices with their places in the plan.
        use: The index.
        spec: What is read.
        each: How files are gone through.

    Returns:
        The slices.
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
        "written anew since, which hudi_vector.index.refresh mends, or the segments are damaged, which refresh(…, "
        "deep=True) or --deep of its command mends; hudi_vector.index.verify tells",
        len(wrong),
        len(entries),
        use.name,
        wrong[0].file_slice.base_file.uri if wrong[0].file_slice.base_file else "",
    )
    return [entry if good else _uncovered(entry) for entry, good in zip(entries, verdicts, strict=True)]


def without_damaged(entries: Sequence[Entry], use: IndexUse, spec: ScanSpec) -> list[Entry]:
    """The slices whose segments can be read: each is tried, and one that cannot is not tried again for a minute.

    Args:
        entries: The slices with their places in the plan, all with a segment.
        use: The index.
        spec: What is read.

    Returns:
        Those of the slices.
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
    """Whether a slice's segment holds, if it has one and that is known."""
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
    # The hashes of keys in the segment are none of this file's either.
    return entry[0], replace(entry[1], segment=None)
