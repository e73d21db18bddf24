"""The counts and times of the index probes of one batch of queries, written as one log line."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from hudi_vector.index.kinds.candidates import Candidates

__all__ = ["ProbeLog"]

_LOG = logging.getLogger("hudi_vector.search")


@dataclass
class ProbeLog:
    """The counts and times of one batch, written at INFO.

    `opened`, `probed` and `read` are seconds. `union` counts the distinct rows that are candidates of any query,
    `scanned` the queries that had too many candidates.
    """

    opened: float = 0.0
    probed: float = 0.0
    read: float = 0.0
    queries: int = 0
    candidates: int = 0
    union: int = 0
    files: int = 0
    lists: int = 0
    codes: int = 0
    scanned: int = 0

    def note(self, queries: int, found: Candidates, files: int) -> None:
        """Add the candidates of some queries, and the number of files that hold them."""
        self.queries += queries
        self.candidates += len(found)
        self.files = max(self.files, files)
        self.lists += found.probed_lists
        self.codes += found.scored_codes
        self.scanned += len(found.given_up)
        if _LOG.isEnabledFor(logging.INFO):
            self.union += len(np.unique(np.stack([found.segment, found.position]), axis=1).T)

    def write(self, name: str, bytes_read: int) -> None:
        """Write the log line; `name` is the index, `bytes_read` the bytes of vectors read."""
        _LOG.info(
            "probe of %s: %d queries, %d candidates, %d rows of them all in %d files, %d lists and %d codes looked at, "
            "%d queries scanned; open %.1f ms, probe %.1f ms, read %.1f ms; %d bytes",
            name,
            self.queries,
            self.candidates,
            self.union,
            self.files,
            self.lists,
            self.codes,
            self.scanned,
            1000 * self.opened,
            1000 * self.probed,
            1000 * self.read,
            bytes_read,
        )
