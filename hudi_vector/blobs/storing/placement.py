"""The rule where a blob is stored, by its size: inline, in a container, or in a separate file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hudi_vector.blobs.settings import BlobSettings

__all__ = ["IN_CONTAINER", "IN_OWN_FILE", "IN_ROW", "NOWHERE", "place"]

NOWHERE, IN_ROW, IN_CONTAINER, IN_OWN_FILE = 0, 1, 2, 3
"""Places: NULL blobs have none, inline blobs lie in their row, all others in files."""


def place(sizes: npt.NDArray[np.int64], settings: BlobSettings) -> npt.NDArray[np.uint8]:
    """Return NOWHERE, IN_ROW, IN_CONTAINER or IN_OWN_FILE for each blob, uint8.

    `sizes` are in bytes, int64, negative for NULL.

    Example:
        >>> place(np.array([-1, 10, 1 << 20, 1 << 30]), BlobSettings()).tolist()
        [0, 1, 2, 3]
    """
    bounds = np.array([0, settings.inline_threshold], np.int64)
    # A separate file needs both conditions: not inline, and larger than a container takes.
    places = np.searchsorted(bounds, sizes, side="right").astype(np.uint8)
    places[(places == IN_CONTAINER) & (sizes > settings.max_element_size)] = IN_OWN_FILE
    return places
