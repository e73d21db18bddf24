"""The layout of a table's timeline: where its files lie, how they are named, and what they tell.

Layout 2 (table versions 8 and 9) keeps the timeline in ``.hoodie/timeline``, or in another folder that the table's
properties name, and its archive in ``history`` below that. Layout 1 (versions up to 6) keeps both in ``.hoodie``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo

from hudi_vector.storage import join
from hudi_vector.table.instants import zone_info
from hudi_vector.table.timeline import Instant, Timeline, parse_layout_1, parse_layout_2

__all__ = ["TimelineLayout", "timeline_path"]

_HOODIE = ".hoodie"
_FIRST_OF_LAYOUT_2 = 8


@dataclass(frozen=True)
class TimelineLayout:
    """The layout of the timeline of a table of this version; `path` is the timeline's folder below ``.hoodie``.

    Example:
        >>> layout = TimelineLayout(6, "")
        >>> layout.file("/t", Instant("20260101000000000", "20260101000001000", "commit"))
        '/t/.hoodie/20260101000000000.commit'
    """

    version: int
    path: str

    @property
    def keeps_completion_times(self) -> bool:
        """Return True if the names of files tell when an action completed, else their modification times do."""
        return self.version >= _FIRST_OF_LAYOUT_2

    @property
    def logs_bear_own_instant(self) -> bool:
        """Return True if the names of log files have the instant that wrote them, else that of their base file."""
        return self.version >= _FIRST_OF_LAYOUT_2

    def folder(self, table: str) -> str:
        """Return the folder of the timeline of the table with this base path."""
        return join(table, _HOODIE, self.path)

    def archive(self, table: str) -> str:
        """Return the folder of the archived timeline of the table with this base path."""
        return join(self.folder(table), "history" if self.keeps_completion_times else "archived")

    def file(self, table: str, instant: Instant) -> str:
        """Return the file of a completed action of the table with this base path."""
        name = instant.name if self.keeps_completion_times else f"{instant.requested}.{instant.action}"
        return join(self.folder(table), name)

    def timeline(self, files: Iterable[tuple[str, int]], zone: str) -> Timeline:
        """Return the timeline from the files of its folder, given by name and modification time in ns since 1970.

        `zone` is the timeline's time zone, used where modification times replace completion times; raises
        InvalidArgumentError if there is no such zone.
        """
        if self.keeps_completion_times:
            return parse_layout_2(name for name, _ in files)
        at = zone_info(zone)
        return parse_layout_1((name, _digits(mtime_ns, at)) for name, mtime_ns in files)


def timeline_path(version: int, properties: Mapping[str, str]) -> str:
    """Return the folder of a table's timeline below ``.hoodie``, empty in layout 1, from ``hoodie.properties``."""
    return properties.get("hoodie.timeline.path", "timeline") if version >= _FIRST_OF_LAYOUT_2 else ""


def _digits(mtime_ns: int, zone: tzinfo) -> str:
    moment = datetime.fromtimestamp(mtime_ns / 1e9, zone)
    return moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
