"""The largest extra columns of a view's lists, which bound the rows of a list that no candidate is made of."""

from __future__ import annotations

import numpy as np

from hudi_vector.index.kinds.model import Floats32
from hudi_vector.index.kinds.prepared import EXTRA
from hudi_vector.kernels.topk import Ints

__all__ = ["Largest"]


class Largest:
    """For each list, the largest value of each extra column, computed when it is first wanted.

    List l holds the rows ``offsets[l]`` to ``offsets[l + 1]`` of `extra`, which need to be in memory only once the list
    is asked for. Any number of threads may ask.
    """

    def __init__(self, offsets: Ints, extra: Floats32) -> None:
        self._offsets, self._extra = offsets, extra
        self._known = np.diff(offsets) == 0
        self._values = np.zeros((len(offsets) - 1, EXTRA), np.float32)

    def of(self, lists: Ints) -> Floats32:
        """Return the largest values in any list of each row of `lists`, shape (h, p), as an array of shape (h, 3)."""
        known = self._known[lists]
        if not known.all():
            for number in np.unique(lists[~known]).tolist():
                self._values[number] = self._extra[self._offsets[number] : self._offsets[number + 1]].max(axis=0)
                self._known[number] = True
        largest: Floats32 = self._values[lists].max(axis=1)
        return largest
