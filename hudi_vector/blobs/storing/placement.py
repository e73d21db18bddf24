"""Which blob goes where: inline, into a container, or into a file of its own. A pure function of sizes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hudi_vector.blobs.settings import BlobSettings

__all__ = ["IN_CONTAINER", "IN_OWN_FILE", "IN_ROW", "NOWHERE", "place"]

NOWHERE, IN_ROW, IN_CONTAINER, IN_OWN_FILE = 0, 1, 2, 3
"""Places: a NULL has none, an inline blob lies in its row, all others in files."""


def place(sizes: npt.NDArray[np.int64], settings: BlobSettings) -> npt.NDArray[np.uint8]:
    """The place of each blob.

    Args:
        sizes: Bytes of each blob, int64; negative for NULL.
        settings: Where the column's blobs go.

    Returns:
        NOWHERE, IN_ROW, IN_CONTAINER or IN_OWN_FILE for each, uint8.

    Example:
        >>> place(np.array([-1, 10, 1 << 20, 1 << 30]), BlobSettings()).tolist()
        [0, 1, 2, 3]
    """
    bounds = np.array([0, settings.inline_threshold], np.int64)
    # An own file needs both: larger than a container takes, and not inline.
    places = np.searchsorted(bounds, sizes, side="right").astype(np.uint8)
    places[(places == IN_CONTAINER) & (sizes > settings.max_element_size)] = IN_OWN_FILE
    return places
