"""Resolution of requested blobs to byte ranges of files, with the reasons why ranges cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hudi_vector.blobs.files import UNASKED, BlobFile, BlobFiles, Trouble
from hudi_vector.blobs.reading.wanted import Ints, Part, Wanted
from hudi_vector.blobs.struct import MAX_VALUE_BYTES, Flags
from hudi_vector.errors import BlobReadError, number_of

__all__ = ["MAX_VALUE_BYTES", "Resolved", "resolve"]

_FINE, _NO_FILE, _TOO_SHORT, _PAST_END, _TOO_LARGE = range(5)


@dataclass(frozen=True)
class Resolved:
    """The bytes of n rows: `need` bytes from byte `begin` of the row's file, or of the inline data.

    `size` is the size of each blob and `start` the first requested byte in it. Rows with a trouble need 0 bytes.
    `files` has the file of each path that was looked up, None for the others.
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
        """Return which rows cannot be read, shape (n,)."""
        found: Flags = self.trouble != _FINE
        return found

    def error(self) -> BlobReadError:
        """Return the error of the first row that cannot be read."""
        row = int(np.argmax(self.failed))
        return self.error_of(row, self._reason(row))

    def error_of(self, row: int, reason: str) -> BlobReadError:
        """Return an error that names the row's path, offset and length."""
        return BlobReadError(f"{self.wanted.described(row)} cannot be read: {reason}")

    def _reason(self, row: int) -> str:
        trouble, size = self.trouble[row], int(self.size[row])
        if trouble == _PAST_END:
            return f"bytes from {self.start[row]} on are asked for, and the blob has {number_of(size, 'byte')}"
        if trouble == _TOO_LARGE:
            return f"it has {size} bytes, and one value holds at most {MAX_VALUE_BYTES}; read it in parts"
        file = self.files[self.wanted.file[row]]
        if isinstance(file, Trouble):
            return file.reason
        assert file is not None
        return f"the file is too short, it has {number_of(file.size, 'byte')}"


def resolve(
    wanted: Wanted, files: BlobFiles, part: Part, *, look: Flags, largest: int | None = None, lazy: bool = False
) -> Resolved:
    """Return the byte ranges that rows ask for, and which of them cannot be read.

    `part` is the requested part of each blob. `look` selects the rows whose files are looked up; it must include
    references without length, whose size only the file knows. `largest` is the largest number of bytes of one row, None
    for no limit. With `lazy`, a file whose size no row needs may be `UNASKED`.
    """
    found = _looked(wanted, files, look, lazy)
    sizes = np.array([UNASKED if file is None or isinstance(file, Trouble) else file.size for file in found], np.int64)
    refers = wanted.refers
    file_size = _per_row(wanted, sizes)
    known = file_size != UNASKED
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


def _looked(wanted: Wanted, files: BlobFiles, look: Flags, lazy: bool) -> list[BlobFile | Trouble | None]:
    """Return the file of each path, None for paths of rows that `look` does not select."""
    numbers = np.unique(wanted.file[wanted.refers & look])
    sized = np.unique(wanted.file[wanted.refers & look & (wanted.length < 0)])
    unasked = {wanted.paths[number] for number in np.setdiff1d(numbers, sized)} if lazy else ()
    found: list[BlobFile | Trouble | None] = [None] * len(wanted.paths)
    for number, file in zip(numbers, files.look((wanted.paths[number] for number in numbers), unasked), strict=True):
        found[number] = file
    return found


def _per_row(wanted: Wanted, values: Ints, otherwise: int = UNASKED) -> Ints:
    """Return the value of each row's file, `otherwise` for rows without a file."""
    # A file number of -1 selects the appended last value.
    spread: Ints = np.append(values, otherwise)[wanted.file]
    return spread
