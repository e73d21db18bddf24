"""The plan of a search: explain prints it, and the driver or the executors run it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.manifest import ManifestEntry
from hudi_vector.query.deadline import Deadline
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.read.parquet.vector_pages import RangeReads
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.spec import ScanSpec
from hudi_vector.shown import Shown, ShownText, as_tree
from hudi_vector.table.model import FileSlice, Snapshot

__all__ = ["EVERY_ROW", "Access", "Entry", "IndexUse", "SearchPlan", "SliceAccess"]

EVERY_ROW = 1 << 40
"""The k of a search that is bounded by distance alone."""

Access = str
"""The access to a slice: ``index``, ``parquet``, ``lance``, ``lance_index``, ``merged``, ``touched`` or ``spark``.

A slice with log files whose base file an index covers is in a plan twice: as ``index`` for the rows that no log file
touches, as ``touched`` for the others.
"""


@dataclass(frozen=True)
class SliceAccess:
    """A slice, the access by which it is read, and the reason why it is not read faster; with an index, its segment.

    `index_folder` holds that segment, if the segment may say which rows of the base file log files touch.
    """

    file_slice: FileSlice
    access: Access
    reason: str = ""
    segment: ManifestEntry | None = None
    index_folder: str = ""

    @property
    def is_merged(self) -> bool:
        """Return True if its rows come from log files, so that they have no place in a single file."""
        return self.access in ("merged", "touched")

    @property
    def size(self) -> int:
        """Return the bytes of its files; of its segment, with an index; of its log files, if touched."""
        if self.access == "touched":
            return sum(log.size for log in self.file_slice.log_files)
        return self.segment.bytes if self.segment else self.file_slice.size


Entry = tuple[int, SliceAccess]
"""A slice with its place in the plan."""


@dataclass(frozen=True)
class IndexUse:
    """The index of a search, and how far it is read.

    If `certain`, it is read until every row of the exact answer is found. Otherwise it stops after `nprobes` and
    `refine_factor`, candidates for each of the k rows, 1 or more; None for the defaults of the view. With
    `lists_at_once`, the first search reads all lists of an index on a local disk; an executor, which has some of the
    slices, reads only those that it needs. `generation` is that of the index, and `manifest` the name of its manifest.
    """

    folder: str
    name: str
    model_id: str
    kind: str
    metric: str
    certain: bool
    reads: RangeReads
    nprobes: int | None = None
    refine_factor: float | None = None
    lists_at_once: bool = True
    generation: int = 0
    manifest: str = ""

    @property
    def effort(self) -> str:
        """Return what `nprobes` counts, as a format."""
        return KINDS[self.kind].effort

    def candidates(self, k: int) -> int | None:
        """Return how many candidates a search for k rows scores exactly; None for the usual number."""
        # The factor is a quotient of two small numbers, which a float holds to fifteen digits.
        return None if self.refine_factor is None else math.ceil(round(self.refine_factor * k, 6))

    def describe(self) -> str:
        """Return a line for explain."""
        looks = "until the answer is exact"
        if not self.certain:
            width = self.effort.format(self.nprobes or "usual")
            width = width.removesuffix("s") if self.nprobes == 1 else width
            factor = "usual" if self.refine_factor is None else f"{self.refine_factor:.3g}"
            looks = f"{width}, {factor} times k candidates"
        return f"{self.kind} for {self.metric}, {looks} ({self.name})"


@dataclass(frozen=True, repr=False)
class SearchPlan(Shown):
    """A search over one snapshot, in which everything is decided except the threads."""

    snapshot: Snapshot
    spec: ScanSpec
    metric: str
    k: int
    max_distance: float | None
    filter_text: str | None
    slices: tuple[SliceAccess, ...]
    pruned_slices: int
    execution: str
    reason: str
    index: IndexUse | None = None
    why_no_index: str = ""
    timeout: float | None = None  # seconds
    grouping: Grouping | None = None
    # Segments of the index whose slices were pruned.
    pruned_segments: tuple[ManifestEntry, ...] = field(default=(), repr=False)

    def deadline(self, begun: float | None = None) -> Deadline:
        """Return the deadline of a search that begins now, or began at a time of `time.monotonic`."""
        return Deadline(self.snapshot.source.name, self.timeout, len(self.slices), begun)

    @property
    def predicate(self) -> Predicate | None:
        """Return the filter that is applied before distances are computed, or None."""
        return self.spec.predicate

    @property
    def bytes_to_read(self) -> int:
        """Return the bytes of all slices: the most that the search can read."""
        return sum(access.size for access in self.slices)

    @property
    def access_counts(self) -> dict[str, int]:
        """Return the number of slices by access."""
        return dict(sorted(Counter(access.access for access in self.slices).items()))

    def describe(self) -> str:
        """Return the plan as text, a line per fact, without credentials."""
        snapshot, column = self.snapshot, self.spec.column
        kind = "VECTOR" if column.is_vector else "ARRAY"
        lines = [
            f"Search of {snapshot.source.name} ({snapshot.source.uri})",
            f"  snapshot    instant {snapshot.instant or 'none'}, completed until {snapshot.watermark or 'none'}"
            + (f", as of {snapshot.as_of}" if snapshot.as_of else ""),
            f"  column      {column.name} {kind}({column.dimension}, {column.element.upper()})",
            f"  metric      {self.metric}, "
            + ("every row" if self.k >= EVERY_ROW else f"k = {self.k}")
            + (f", max_distance = {self.max_distance}" if self.max_distance is not None else ""),
            *([f"  groups      {self.grouping.describe()}"] if self.grouping else []),
            f"  filter      {self.filter_text or 'none'}",
            f"  index       {self.index.describe() if self.index else 'none: ' + self.why_no_index}",
            f"  execution   {self.execution}: {self.reason}",
            f"  slices      {len(self.slices)} to read"
            + (f", {self.pruned_slices} pruned by partition" if self.pruned_slices else ""),
        ]
        reasons = Counter((access.access, access.reason) for access in self.slices)
        for (access, reason), count in sorted(reasons.items()):
            lines.append(f"    {access:<9} {count}" + (f": {reason}" if reason else ""))
        return "\n".join([*lines, f"  bytes       {self.bytes_to_read} at the most"])

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each slice: its base file, how it is read and why not faster, and its bytes."""
        files = [access.file_slice.base_file for access in self.slices]
        return [
            {"file": file and file.uri, "access": access.access, "reason": access.reason, "bytes": access.size}
            for file, access in zip(files, self.slices, strict=True)
        ]

    def lines(self) -> Iterator[str]:
        """Yield the lines of `describe`, as a tree."""
        yield from as_tree(self.describe()).splitlines()

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return ShownText(repr(self))._repr_html_()
