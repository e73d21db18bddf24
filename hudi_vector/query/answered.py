"""The answer of a search, held by reference, of which a receipt can be made later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hudi_vector.kernels.metrics import Floats
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import SearchPlan

__all__ = ["Answered"]


@dataclass(frozen=True)
class Answered:
    """A search that ran: its plan, its queries, shape (m, d), the rows found, the columns returned, the settings.

    `filter` is the text of the filter, None if it may name columns otherwise than the table does, as in a view.
    """

    plan: SearchPlan
    vectors: Floats
    winners: Winners
    columns: Sequence[str]
    conf: Mapping[str, str]
    filter: str | None

    @property
    def nbytes(self) -> int:
        """Return about how many bytes queries and rows hold."""
        return int(self.vectors.nbytes) + 56 * len(self.winners)
