"""From what rows ask for to bytes that are there: sizes of files, parts of blobs, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hudi_vector.blobs.files import BlobFile, BlobFiles, Trouble
from hudi_vector.blobs.reading.wanted import Ints, Part, Wanted
from hudi_vector.blobs.struct import MAX_VALUE_BYTES, Flags
from hudi_vector.errors import BlobReadError

__all__ = ["MAX_VALUE_BYTES", "Resolved", "resolve"]

_UNKNOWN = -1
_FINE, _NO_FILE, _TOO_SHORT, _PAST_END, _TOO_LARGE = range(5)


@dataclass(frozen=True)
class Resolved:
    """For each of n rows: `need` bytes from byte `begin` of its file, or of its own data where it is inline.

    Rows with a trouble need 0 bytes. `files` has the file of each path that was looked at.
    """

    wanted: Wanted
    files: tuple[BlobFile | Trouble | None, ...]
    begin: Ints
    need: Ints
    size: Ints
    start: Ints
    trouble: npt.NDArray[np.int8]

    @property
    def failed(self) -> Flags:
        """Whether each row's bytes cannot be had."""
        found: Flags = self.trouble != _FINE
        return found

    def error(self) -> BlobReadError:
        """The error of the first row that has one."""
        row = int(np.argmax(self.failed))
        return self.error_of(row, self._reason(row))

    def error_of(self, row: int, reason: str) -> BlobReadError:
        """An error that names the row's path, offset and length."""
        return BlobReadError(f"{self.wanted.described(row)} cannot be read: {reason}")

    def _reason(self, row: int) -> str:
        trouble, size = self.trouble[row], int(self.size[row])
        if trouble == _PAST_END:
            return f"bytes from {self.start[row]} on are asked for, and the blob has {size} bytes"
        if trouble == _TOO_LARGE:
            return f"it has {size} bytes, and one value holds at most {MAX_VALUE_BYTES}; read it in parts"
        file = self.files[self.wanted.file[row]]
        if isinstance(file, Trouble):
            return file.reason
        assert file is not None
        return f"the file is too short, it has {file.size} bytes"


def resolve(wanted: Wanted, files: BlobFiles, part: Part, *, look: Flags, largest: int | None = None) -> Resolved:
    """Find out which bytes of which files rows ask for.

    Args:
        wanted: What the rows ask for.
        files: The files seen so far.
        part: Which part of each blob is asked for.
        look: The rows whose files are looked at; sizes that only a file knows need it.
        largest: The most bytes of one row; None for any.

    Returns:
        The bytes, and the rows whose bytes are not there.
    """
    found = _looked(wanted, files, look)
    sizes = np.array([_UNKNOWN if file is None or isinstance(file, Trouble) else file.size for file in found], np.int64)
    refers = wanted.refers
    file_size = _per_row(wanted, sizes)
    known = file_size != _UNKNOWN
    data_begin, _ = wanted.inline_bytes()
    open_end, needs_file = refers & (wanted.length < 0), refers & (wanted.length != 0)
    size = np.select(
        [wanted.inline, open_end, refers],
        [np.diff(data_begin), np.where(known, file_size - wanted.offset, 0), wanted.length],
        0,
    )
    start, count = part.rows(len(wanted))
    need = np.minimum(count, size - start)
    no_file = _per_row(wanted, np.array([isinstance(file, Trouble) for file in found], np.int64), 0) > 0
    trouble = np.select(
        [
            needs_file & no_file,
            needs_file & known & ((size < 0) | (size > file_size - wanted.offset)),
            (wanted.inline | refers) & (start > size),
            need > (largest or np.iinfo(np.int64).max),
        ],
        [_NO_FILE, _TOO_SHORT, _PAST_END, _TOO_LARGE],
        _FINE,
    ).astype(np.int8)
    return Resolved(
        wanted=wanted,
        files=tuple(found),
        begin=np.where(wanted.inline, data_begin[:-1], wanted.offset) + start,
        need=np.where((trouble == _FINE) & (wanted.inline | refers), need, 0),
        size=size,
        start=start,
        trouble=trouble,
    )


def _looked(wanted: Wanted, files: BlobFiles, look: Flags) -> list[BlobFile | Trouble | None]:
    """The files of the rows to look at, None in the place of the others."""
    numbers = np.unique(wanted.file[wanted.refers & look])
    found: list[BlobFile | Trouble | None] = [None] * len(wanted.paths)
    for number, file in zip(numbers, files.look(wanted.paths[number] for number in numbers), strict=True):
        found[number] = file
    return found


def _per_row(wanted: Wanted, values: Ints, otherwise: int = _UNKNOWN) -> Ints:
    """The value of each row's file."""
    # The last place is what a file number of −1 picks.
    spread: Ints = np.append(values, otherwise)[wanted.file]
    return spread
