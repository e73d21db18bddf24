"""The lists of packs, read when a search needs them into the arrays of a view."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import DataFileError
from hudi_vector.index.kinds.candidates import bases_of
from hudi_vector.index.kinds.model import Floats32, IndexModel
from hudi_vector.index.kinds.prepared import EXTRA, extra_columns
from hudi_vector.index.kinds.segment import MEASURES, measures, require_measures
from hudi_vector.index.kinds.view import IndexView
from hudi_vector.index.packs.layout import PackHead, checks_of
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.parquet.kept_footer import KeptFooter
from hudi_vector.read.parquet.page_table import PageTable
from hudi_vector.storage import Storage, parallel
from hudi_vector.storage.ranges import MAX_READ, plan_reads, usual_gap

__all__ = ["Coded", "PackFile", "UnreadableListError", "stored_view", "whole_lists"]

_BATCH_BYTES = 64 << 20
_SHARE_BYTES = 4 << 20
_ROW_BYTES = 4


class UnreadableListError(DataFileError):
    """A list of a pack could not be read, or is damaged, when a search needed it."""


class PackFile:
    """A pack, open for reads by any number of threads."""

    def __init__(self, storage: Storage, uri: str, size: int) -> None:
        """Open a pack of `size` bytes; an object is not asked for before it is read."""
        self.storage, self.uri = storage, uri
        self._opened = storage.open(uri, mapped=False, size=size, mtime_ns=0)

    def read(self, begin: int, length: int) -> bytes:
        """Return a range of bytes; raise DataFileError if it cannot be read or the file is shorter."""
        try:
            content: bytes = self._opened.read_at(length, begin)
        except OSError as problem:
            raise DataFileError(f"the pack '{self.uri}' cannot be read: {problem}") from problem
        if len(content) != length:
            raise DataFileError(f"the pack '{self.uri}' is cut off")
        return content


@dataclass(frozen=True, eq=False)
class _Placed:
    """A pack in a view: list l begins with entry ``begin[l]``, and segment s with row ``base[s]`` of the view."""

    file: PackFile
    head: PackHead
    begin: Ints
    base: Ints

    def rows(self, rows: npt.NDArray[np.uint32]) -> Ints:
        """Return rows of the pack as rows of the view."""
        shift = self.base - self.head.bases[:-1]
        if (shift == shift[0]).all():
            shift = shift[:1]
        segment = 0 if len(shift) == 1 else np.searchsorted(self.head.bases, rows, side="right") - 1
        found: Ints = rows + shift[segment]
        return found

    def entries(self, lists: Ints) -> Ints:
        """Return the entries of the view that are those of the pack's lists, one list after the other."""
        sizes = self.head.sizes[lists].astype(np.int64)
        ends = np.cumsum(sizes)
        return np.repeat(self.begin[lists] - ends + sizes, sizes) + np.arange(int(ends[-1]) if len(ends) else 0)


def stored_view(
    model: IndexModel, files: Sequence[PackFile], heads: Sequence[PackHead], places: Sequence[Ints]
) -> IndexView:
    """Return a view of packs that reads the lists when they are needed.

    `places` says, for each pack, the place of each of its segments among the segments of the view.
    """
    rows = np.zeros(sum(len(own) for own in places), np.int64)
    described: dict[int, tuple[PageTable | None, KeptFooter | None]] = {}
    for head, own in zip(heads, places, strict=True):
        rows[own] = np.diff(head.bases)
        described |= dict(zip(own.tolist(), zip(head.pages, head.footers, strict=True), strict=True))
    bases = bases_of(rows.tolist())
    sizes = sum((head.sizes.astype(np.int64) for head in heads), np.zeros(model.lists, np.int64))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    begin, placed = offsets[:-1].copy(), []
    for file, head, own in zip(files, heads, places, strict=True):
        placed.append(_Placed(file, head, begin.copy(), bases[own]))
        begin += head.sizes
    always = [own.rows(own.head.always.astype(np.uint32)) for own in placed]
    view = IndexView(
        model,
        offsets,
        np.empty(int(offsets[-1]), np.uint32 if bases[-1] < 1 << 32 else np.int64),
        np.empty((int(offsets[-1]), model.code_width), model.code_dtype),
        np.empty((int(offsets[-1]), EXTRA), np.float32),
        np.maximum.reduce([head.radius for head in heads]),
        np.sort(np.concatenate(always)),
        bases,
        tuple(described[place][0] for place in range(len(rows))),
        tuple(described[place][1] for place in range(len(rows))),
    )
    return replace(view, lists=_StoredLists(view, placed))


class _StoredLists:
    """The lists of a view's packs; memory that no list was read into is never touched."""

    def __init__(self, view: IndexView, packs: Sequence[_Placed]) -> None:
        self._row, self._codes, self._extra, self._model = view.row, view.codes, view.extra, view.model
        self._sizes = np.diff(view.offsets)
        self._packs = packs
        self._there = self._sizes == 0
        self._has_rows = not len(view.row)
        self._lock = threading.Lock()
        self.spent = 0
        self.is_whole = bool(self._there.all())

    def need(self, lists: Ints | None) -> None:
        """Read lists that are not there yet, or all of them; once half of the entries are needed, all are read."""
        if self.is_whole:
            return
        with self._lock:
            wanted = self._there.copy()
            wanted[slice(None) if lists is None else lists] = True
            if 2 * int(self._sizes[wanted].sum()) > len(self._row):
                wanted[:] = True
            try:
                self._read(np.flatnonzero(wanted & ~self._there))
            except DataFileError as problem:
                raise UnreadableListError(str(problem)) from problem
            self._there = wanted
            self.is_whole = bool(wanted.all())

    def need_rows(self) -> None:
        """Read the rows of all entries, if they are not there yet."""
        with self._lock:
            if self.is_whole or self._has_rows:
                return
            every = np.arange(len(self._sizes))
            storage = self._packs[0].file.storage
            try:
                for pack, content in zip(self._packs, storage.each(_rows_content, self._packs), strict=True):
                    self._row[pack.entries(every)] = pack.rows(pack.head.rows_of(content))
            except DataFileError as problem:
                raise UnreadableListError(str(problem)) from problem
            self._has_rows = True

    def cost_of(self, lists: Ints) -> int:
        """Return what it costs to have these lists, as a number of bytes that are read in sequence."""
        absent = lists[~self._there[lists]]
        read = int(self._sizes[absent].sum()) * self._packs[0].head.width + len(absent) * len(self._packs) * self._gap
        return max(0, read - self.spent)

    @property
    def _gap(self) -> int:
        return usual_gap(is_local=self._packs[0].file.storage.scheme == "file")

    def _read(self, lists: Ints) -> None:
        """Read lists, some tens of megabytes at a time."""
        lengths = self._sizes[lists] * self._packs[0].head.width
        batch = np.cumsum(lengths) // _BATCH_BYTES
        for number in np.unique(batch):
            self._read_at_once(lists[batch == number])

    def _read_at_once(self, lists: Ints) -> None:
        number = np.repeat(np.arange(len(self._packs)), len(lists))
        begin = np.concatenate([pack.head.places[lists] for pack in self._packs])
        length = np.concatenate([pack.head.places[lists + 1] for pack in self._packs]) - begin
        ends = np.cumsum(length)
        content = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8).data
        storage = self._packs[0].file.storage
        plan = plan_reads(number, begin, length, ends - length, max_gap=self._gap, max_read=MAX_READ)

        def read(which: int) -> None:
            at = int(plan.offset[which])
            held = self._packs[int(plan.file[which])].file.read(at, int(plan.length[which]))
            for run in range(int(plan.first_run[which]), int(plan.first_run[which + 1])):
                source, goes, size = (int(of[run]) for of in (plan.run_source, plan.run_target, plan.run_size))
                content[goes : goes + size] = held[source - at : source - at + size]

        storage.each(read, range(len(plan)))
        parts = [content[stop - size : stop] for stop, size in zip(ends.tolist(), length.tolist(), strict=True)]
        for place, pack in enumerate(self._packs):
            self._put(pack, lists, parts[place * len(lists) : (place + 1) * len(lists)])

    def _put(self, pack: _Placed, lists: Ints, parts: Sequence[memoryview]) -> None:
        """Put the bytes of a pack's lists into the arrays of the view; raise DataFileError if they are damaged."""
        begin = pack.begin[lists].tolist()
        square, error, own = _filled(pack.head, lists, parts, self._codes, begin)
        extra, row = extra_columns(self._model, square, error), pack.rows(own)
        at = 0
        for first, count in zip(begin, pack.head.sizes[lists].tolist(), strict=True):
            self._extra[first : first + count] = extra[at : at + count]
            self._row[first : first + count] = row[at : at + count]
            at += count


@dataclass(frozen=True)
class Coded:
    """Entries of lists, one list after the other; rows are those of the pack."""

    codes: npt.NDArray[Any]
    square: Floats32
    error: Floats32
    row: npt.NDArray[np.uint32]


def whole_lists(file: PackFile, head: PackHead) -> Coded:
    """Read all lists of a pack; raise DataFileError if one is damaged, or is not of the rows that the pack names."""
    begin, end = head.begin, int(head.places[-1])
    starts = range(begin, end, MAX_READ)
    content = b"".join(file.storage.each(lambda at: file.read(at, min(MAX_READ, end - at)), starts))
    places = (head.places - begin).tolist()
    lists = np.arange(len(head.sizes))
    parts = [memoryview(content)[places[each] : places[each + 1]] for each in lists]
    first = (np.cumsum(head.sizes, dtype=np.int64) - head.sizes).tolist()
    codes = np.empty((head.entries, head.model.code_width), head.model.code_dtype)
    found = Coded(codes, *_filled(head, lists, parts, codes, first))
    if (found.row != head.rows_of(content[: places[0]])).any():
        raise head.damaged()
    return found


def _filled(
    head: PackHead, lists: Ints, parts: Sequence[memoryview], codes: npt.NDArray[Any], begin: Sequence[int]
) -> tuple[Floats32, Floats32, npt.NDArray[np.uint32]]:
    """Put the codes of lists where each begins, from the bytes of each, and return their squares, errors and rows.

    Raises DataFileError if the bytes are damaged.
    """
    model, sizes = head.model, head.sizes[lists].astype(np.int64)
    counts, ends = sizes.tolist(), np.cumsum(sizes).tolist()
    measured = 0 if model.codes == "bits" else len(MEASURES)
    # Squares and errors are float32, of the same width.
    numbers = np.empty((measured + 1, ends[-1] if ends else 0), np.uint32)

    def fill(places: Ints) -> None:
        if (checks_of([parts[place] for place in places]) != head.checks[lists[places]]).any():
            raise head.damaged()
        for place in places.tolist():
            part, count, first, end = parts[place], counts[place], begin[place], ends[place]
            after = count * model.code_width * model.code_dtype.itemsize
            coded = np.frombuffer(part[:after], model.code_dtype)
            codes[first : first + count] = coded.reshape(count, model.code_width)
            numbers[:, end - count : end] = np.frombuffer(part[after:], np.uint32).reshape(measured + 1, count)

    # Neither the checks nor the copies hold Python's lock.
    shares = np.cumsum([len(part) for part in parts]) // _SHARE_BYTES
    parallel.each(fill, [np.flatnonzero(shares == share) for share in np.unique(shares)])
    head.check_rows(numbers[-1])
    try:
        if measured:
            square, error, row = numbers[0].view(np.float32), numbers[1].view(np.float32), numbers[2]
            require_measures(square, error)
            return square, error, row
        own = [codes[first : first + count] for first, count in zip(begin, counts, strict=True)]
        return *measures(model, np.concatenate(own), np.repeat(lists, counts)), numbers[0]
    except ValueError as problem:
        raise DataFileError(f"the pack '{head.uri}' does not fit its model: {problem}") from problem


def _rows_content(pack: _Placed) -> bytes:
    return pack.file.read(pack.head.begin, pack.head.entries * _ROW_BYTES)
