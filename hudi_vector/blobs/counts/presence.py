"""Checks that the bytes that references name exist."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hudi_vector.blobs.files import BlobFile, BlobFiles, Trouble, reason_of
from hudi_vector.blobs.stored_blobs import TO_THE_END

__all__ = ["DIRECTORY", "FINE", "GONE", "TOO_SHORT", "UNREACHABLE", "file_sizes", "presence"]

Ints = npt.NDArray[np.int64]

FINE, GONE, DIRECTORY, UNREACHABLE, TOO_SHORT = 0, -1, -2, -3, -4
"""The states of a reference. GONE, DIRECTORY and UNREACHABLE are also used in place of a file's size."""

_REASONS = {reason_of(FileNotFoundError()): GONE, reason_of(IsADirectoryError()): DIRECTORY}


def file_sizes(files: BlobFiles, uris: Iterable[str]) -> list[int]:
    """Return the size of each file in bytes, or GONE, DIRECTORY or UNREACHABLE.

    Raises MissingDependencyError if a scheme needs a package that is not installed.
    """
    return [_size(file) for file in files.look(uris)]


def presence(begin: Ints, count: Ints, size: Ints) -> Ints:
    """Return FINE, GONE, DIRECTORY, UNREACHABLE or TOO_SHORT for each reference.

    `begin` is the first byte, `count` the number of bytes, or `TO_THE_END` for the rest of the file; a range of 0 bytes
    needs no file. `size` is the file's size or its state, as from `file_sizes`.

    Example:
        >>> presence(np.array([0, 3, 0]), np.array([4, 2, 0]), np.array([4, 4, GONE])).tolist()
        [0, -4, 0]
    """
    needed = np.where(count == TO_THE_END, 0, count)
    # begin + needed could overflow 64 bits.
    short = (size >= 0) & (begin > size - needed)
    return np.where(count == 0, FINE, np.where(size < 0, size, np.where(short, TOO_SHORT, FINE)))


def _size(file: BlobFile | Trouble) -> int:
    return _REASONS.get(file.reason, UNREACHABLE) if isinstance(file, Trouble) else file.size
