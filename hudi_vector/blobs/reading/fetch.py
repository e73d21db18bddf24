"""Reading of the bytes of BLOB columns, INLINE or by reference, with few reads into one Arrow array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.files import UNASKED, BlobFile, BlobFiles, Trouble, default_threads
from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.reading.resolve import MAX_VALUE_BYTES, Resolved, resolve
from hudi_vector.blobs.reading.transfer import Failure, transfer
from hudi_vector.blobs.reading.wanted import Ints, Part, Wanted, wanted_of
from hudi_vector.blobs.struct import BlobColumns, Flags
from hudi_vector.blobs.uploads.kept_checksums import KeptChecksums, kept_checksums
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, number_of
from hudi_vector.storage import StorageOptions, path_text
from hudi_vector.storage.ranges import LOCAL_MAX_GAP, MAX_READ, OBJECT_STORE_MAX_GAP, Reads, plan_reads, sparing_gap

__all__ = ["BlobFetcher", "Part"]

_WHOLE = Part()
_CHANGED = "its bytes are not those that were written: they differ from the stored checksum"
# Reads are not split below this size to share them between threads; on an object store each is a request.
_MIN_SHARE, _MIN_REMOTE_SHARE = 256 << 10, 1 << 20
# So many bytes between small values are read, even if they are more than those of the values.
_SPARE = 1 << 20


@dataclass(frozen=True)
class BlobFetcher:
    """A reader of the bytes of blobs.

    Args:
        options: Hadoop's storage settings.
        table: The base path of the table that holds the references, for relative paths; None if there is none.
        max_gap: Ranges of a file with no more than this many bytes between them are read together; None for 16 KiB on a
            local disk, and elsewhere for as many that no more bytes are read between ranges than of them, or 1 MiB,
            at most 256 KiB.
        threads: The largest number of threads that read at once; None for 32, or on a local disk for one while the disk
            is fast and 4 otherwise.
        on_error: ``"raise"``, or ``"null"`` for NULL in place of bytes that cannot be read: the file is gone, too
            short, a directory or forbidden, or reading fails; no driver knows its scheme; a part starts past the end of
            its blob; or the value has more than 2³¹ - 1 bytes. Contradictory fields, and a known driver that is not
            installed, always raise.
        verify: Whether the bytes of whole blobs are compared with the checksums kept when they were written; bytes that
            changed count as unreadable. Blobs without a checksum, and parts of blobs, are not compared.
        from_remote: Whether references may come from an object store, if the table is not known; then they may not name
            files of this machine.
        kept: The checksums to compare with; None for those that this process keeps.

    Raises:
        InvalidArgumentError: A setting has an invalid value.

    Example:
        >>> from hudi_vector.blobs.struct import blob_array
        >>> blobs = blob_array(["INLINE", None], [b"x", None], *[[None, None]] * 4)
        >>> BlobFetcher().fetch(BlobColumns.of(blobs)).to_pylist()
        [b'x', None]
    """

    options: StorageOptions = field(default_factory=StorageOptions)
    table: str | None = None
    max_gap: int | None = None
    threads: int | None = None
    on_error: str = "raise"
    verify: bool = False
    from_remote: bool = False
    kept: KeptChecksums | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "null"):
            raise InvalidArgumentError(f"on_error = {self.on_error!r} is not allowed: give 'raise' or 'null'")
        if self.max_gap is not None and self.max_gap < 0:
            raise InvalidArgumentError(f"max_gap = {self.max_gap} is not allowed: give 0 or more bytes")
        if self.threads is not None and (not isinstance(self.threads, int) or self.threads < 1):
            raise InvalidArgumentError(f"threads = {self.threads!r} is not allowed: give a whole number, 1 or more")
        object.__setattr__(self, "table", path_text(self.table))
        if self.table is not None and not isinstance(self.table, str):
            raise InvalidTypeError(f"table is the base path of a table, not {self.table!r}")

    def files(self) -> BlobFiles:
        """Return a cache of files that several calls on one column can share, so that each file is looked up once."""
        return BlobFiles(self.options, self.table, self.threads, from_remote=self.from_remote)

    def sizes(self, columns: BlobColumns, part: Part = _WHOLE, *, files: BlobFiles | None = None) -> Ints:
        """Return how many bytes each row will need, shape (n,), int64; 0 for NULL and for rows that become NULL.

        Only references without length are looked up in storage: they go from their offset (0 if missing) to the end of
        the file. `part` is the part of each blob that will be requested. Raises InvalidBlobError if the fields of a
        blob contradict each other, BlobReadError if a file is missing or too short and `on_error` is ``"raise"``.
        """
        wanted = wanted_of(columns)
        return self._resolved(wanted, part, files or self.files(), wanted.length < 0).need

    def fetch(self, columns: BlobColumns, part: Part = _WHOLE, *, files: BlobFiles | None = None) -> pa.BinaryArray:
        """Return the bytes of each row as n values of type ``binary``, NULL for NULL.

        A part is cut at the blob's end, as by SQL's ``substring``; a part that starts past the end is an error, one
        that starts exactly at the end is empty. A reference to 0 bytes is an empty value, without a lookup of its file.

        Args:
            columns: The fields of n blobs.
            part: The requested part of each blob.
            files: A cache from `files`, to look up each file once in several calls.

        Raises:
            InvalidBlobError: The fields of a blob contradict each other.
            BlobReadError: Bytes cannot be read, and `on_error` is ``"raise"``.
            InvalidArgumentError: The values together have more than 2³¹ - 1 bytes, the limit of a ``binary`` array.
                Fetch fewer rows at a time, as `hudi_vector.blobs.reading.batches.read_batches` does.
        """
        wanted = wanted_of(columns)
        if part.whole and not wanted.refers.any():
            return columns.data  # inline bytes need no read; rows without a type have no data
        resolved, values = self._carried(wanted, part, files or self.files())
        return self._verified(resolved, values) if self.verify and part.whole else values

    def _verified(self, resolved: Resolved, values: pa.BinaryArray) -> pa.BinaryArray:
        """Return the values with NULL, or raise BlobReadError, where bytes changed since they were written."""
        wanted = resolved.wanted
        rows = np.flatnonzero(wanted.refers & (wanted.length >= 0) & np.asarray(values.is_valid()))
        uris = pa.array([file_uri(path, self.table) for path in wanted.paths], pa.string())
        kept = (self.kept or kept_checksums(self.options)).of(
            uris.take(pa.array(wanted.file[rows])), wanted.offset[rows], wanted.length[rows]
        )
        rows = rows[kept.rows]
        changed = rows[kept.changed(values.take(pa.array(rows)))]
        if not len(changed):
            return values
        if self.on_error == "raise":
            raise resolved.error_of(int(changed[0]), _CHANGED)
        lost = np.zeros(len(values), np.bool_)
        lost[changed] = True
        return pc.if_else(pa.array(lost), pa.scalar(None, pa.binary()), values)

    def _carried(self, wanted: Wanted, part: Part, files: BlobFiles) -> tuple[Resolved, pa.BinaryArray]:
        """Return the ranges of all rows, and their bytes.

        The size of an object is asked for only where a read of it failed: it may be gone, or too short for some rows.
        """
        while True:
            resolved = self._resolved(wanted, part, files, wanted.length != 0, MAX_VALUE_BYTES, lazy=True)
            try:
                return resolved, self._filled(resolved)
            except _UnaskedError as failed:
                files.doubt(failed.paths)

    def _resolved(
        self,
        wanted: Wanted,
        part: Part,
        files: BlobFiles,
        look: Flags,
        largest: int | None = None,
        lazy: bool = False,
    ) -> Resolved:
        resolved = resolve(wanted, files, part, look=look, largest=largest, lazy=lazy)
        if self.on_error == "raise" and resolved.failed.any():
            raise resolved.error()
        return resolved

    def _filled(self, resolved: Resolved) -> pa.BinaryArray:
        wanted = resolved.wanted
        ends = np.zeros(len(wanted) + 1, np.int64)
        np.cumsum(resolved.need, out=ends[1:])
        total = int(ends[-1])
        if total > MAX_VALUE_BYTES:
            raise InvalidArgumentError(
                f"{number_of(len(wanted), 'blob has', 'blobs have')} {total} bytes together, and one array holds at "
                f"most {MAX_VALUE_BYTES}; "
                "read fewer at a time"
            )
        values = pa.allocate_buffer(total)
        output = memoryview(values).cast("B")
        _copy_inline(resolved, ends[:-1], output)
        lost = self._read(resolved, ends[:-1], output)
        for row in np.flatnonzero(lost):
            output[ends[row] : ends[row + 1]] = bytes(int(resolved.need[row]))  # no uninitialised memory under a NULL
        valid = (wanted.inline | wanted.refers) & ~resolved.failed & ~lost
        mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        offsets = pa.py_buffer(ends.astype(np.int32))
        return pa.Array.from_buffers(pa.binary(), len(wanted), [mask, offsets, values])

    def _read(self, resolved: Resolved, target: Ints, output: memoryview) -> Flags:
        """Read the referenced bytes into `output`; return which rows could not be read."""
        wanted = resolved.wanted
        files = [None if isinstance(file, Trouble) else file for file in resolved.files]
        is_local = np.array([file is not None and file.local for file in files] + [False])[wanted.file]
        lost = np.zeros(len(wanted), np.bool_)
        reasons: dict[int, str] = {}
        for local in (True, False):
            rows = np.flatnonzero(wanted.refers & (resolved.need > 0) & (is_local == local))
            threads = self.threads or default_threads(local=local)
            need = resolved.need[rows]
            gap = self._gap(wanted.file[rows], resolved.begin[rows], need, local)
            planned = partial(plan_reads, wanted.file[rows], resolved.begin[rows], need, target[rows], max_gap=gap)
            total = int(need.sum())
            if local:
                reads = planned(max_read=_share(total, threads, _MIN_SHARE))
            else:
                reads = _in_one_round(planned, total, threads)
            failures = transfer(reads, files, output, self.threads)
            _require_asked(failures, reads, wanted, files)
            for failure in failures:
                failed = rows[reads.rows(failure.read)]
                lost[failed] = True
                reasons.update(dict.fromkeys(failed.tolist(), failure.reason))
        if reasons and self.on_error == "raise":
            row = min(reasons)
            raise resolved.error_of(row, reasons[row])
        return lost

    def _gap(self, file: npt.NDArray[np.int32], begin: Ints, need: Ints, local: bool) -> int:
        """Return how many bytes between two ranges are read too."""
        if self.max_gap is not None:
            return self.max_gap
        return LOCAL_MAX_GAP if local else sparing_gap(file, begin, need, OBJECT_STORE_MAX_GAP, _SPARE)


class _UnaskedError(Exception):
    """Reads of files failed whose sizes were not asked for."""

    def __init__(self, paths: set[str]) -> None:
        super().__init__(paths)
        self.paths = paths


def _require_asked(failures: Sequence[Failure], reads: Reads, wanted: Wanted, files: Sequence[BlobFile | None]) -> None:
    numbers = {int(reads.file[failure.read]) for failure in failures}
    unasked = {wanted.paths[number] for number in numbers if (file := files[number]) and file.size == UNASKED}
    if unasked:
        raise _UnaskedError(unasked)


def _in_one_round(planned: Callable[..., Reads], total: int, threads: int) -> Reads:
    """Plan the reads of objects: if all may be under way together, no more than that where longer ones make do.

    A read for which no thread is left waits for another one to end, which takes longer than a few megabytes more.
    """
    reads = planned(max_read=_share(total, threads, _MIN_REMOTE_SHARE))
    if len(reads) <= threads or total > threads * _MIN_REMOTE_SHARE:
        return reads
    whole = planned(max_read=MAX_READ)
    left = threads - len(whole)
    return planned(max_read=min(MAX_READ, max(_MIN_REMOTE_SHARE, -(-total // left)))) if left > 0 else whole


def _share(total: int, threads: int, least: int) -> int:
    """Return the largest size of one read in bytes, so that the reads in progress are small against the output."""
    return min(MAX_READ, max(least, total // (4 * threads)))


def _copy_inline(resolved: Resolved, target: Ints, output: memoryview) -> None:
    """Copy inline bytes; values that are adjacent in the column are copied together."""
    rows = np.flatnonzero(resolved.wanted.inline & (resolved.need > 0))
    _, data = resolved.wanted.inline_bytes()
    source = data.data
    same_file: npt.NDArray[np.int64] = np.zeros(len(rows), np.int64)
    runs = plan_reads(same_file, resolved.begin[rows], resolved.need[rows], target[rows], max_gap=0, max_read=1 << 62)
    for begin, to, size in zip(runs.run_source.tolist(), runs.run_target.tolist(), runs.run_size.tolist(), strict=True):
        output[to : to + size] = source[begin : begin + size]
