"""The search of the slices that an index covers: candidates from the codes, then exact distances of their vectors.

If the index has to be certain, the candidates contain every row of the exact answer. Their distances are computed from
the table's own vectors with the arithmetic of a scan, so that the answer is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.calibration.held_out import Each
from hudi_vector.index.kinds.candidates import Candidates, View
from hudi_vector.index.load import forget_view, kept_view, load_view
from hudi_vector.index.manifest import ManifestEntry
from hudi_vector.index.packs.lists import UnreadableListError
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints, TopK, VectorBlock, make_block
from hudi_vector.query.execute import (
    Asked,
    Question,
    joined,
    open_base,
    search_slice,
    search_together,
    settled,
    tie_keys,
)
from hudi_vector.query.indexed.fitting import fitting, without_damaged
from hudi_vector.query.lance.choice import LANCE_INDEX, LanceIndexUse
from hudi_vector.query.lance.index import search_covered
from hudi_vector.query.merge import SliceHits, break_ties
from hudi_vector.query.plan import Entry, IndexUse, SliceAccess
from hudi_vector.read.cache import process_cache
from hudi_vector.read.filtered import allowed_rows
from hudi_vector.read.parquet.kept_footer import KeptFooter, keep_footer
from hudi_vector.read.parquet.page_table import PageTable
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.parquet.vector_pages import RangeReads
from hudi_vector.read.rows_ahead import MOST_ROWS, RowsAhead
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.read.vectors import joined as one_block
from hudi_vector.storage import FileInfo, parallel, scheme_of

__all__ = ["scans_only", "search_slices"]

_MOST_CANDIDATES = 4096
"""A query with more candidates than this is answered by a scan, which is faster than reading so many single rows."""

_TOGETHER_BYTES = 4 << 20
"""Base files are scanned together up to so many bytes: a search of each alone takes some time whatever its size."""

_LEAST_AT_ONCE = 2
"""So many files of an object store are scanned at once, however large they are."""

_FEW = 4096
"""Up to this many candidates of all queries are scored at once: a call for each file would take longer."""

_FEW_ALLOWED = 1024
"""Up to this many rows that pass a filter are compared without their codes, if these are not in memory."""

_Masks = list[npt.NDArray[np.bool_]]


def search_slices(
    entries: Sequence[tuple[int, SliceAccess]],
    use: IndexUse | None,
    spec: ScanSpec,
    question: Asked,
    bounds: Bounds,
    keep: bool,
    each: Each = map,
    others: Sequence[ManifestEntry] = (),
) -> Iterator[tuple[list[SliceHits], ScanCounts]]:
    """Yield at most k hits for each query and slice, with the counts of the rows read.

    Indexed slices come first, because their hits bound the scan of the others.

    Args:
        entries: The slices with their places in the plan.
        use: The index of the plan.
        spec: The columns and rows to read.
        question: The queries.
        bounds: Upper bounds of the k-th distances, which the search tightens.
        keep: Whether decoded data is kept in the process's cache.
        each: A function that maps another one over slices, in threads or one by one.
        others: Segments of the same index whose slices the plan left out; a cached view may include them.
    """
    if not isinstance(question, Question):  # an index finds the rows nearest to one column's queries
        use = None
    if isinstance(use, LanceIndexUse):
        assert isinstance(question, Question)
        of_lance = [entry for entry in entries if entry[1].access == LANCE_INDEX]
        if of_lance:
            yield search_covered(of_lance, use, spec, question, bounds, keep, each)
        entries = [entry for entry in entries if entry[1].access != LANCE_INDEX]
    elif use is not None:
        entries = fitting(entries, use, spec, each)
    # By name, so that every search of the same segments takes the same view.
    covered = sorted((entry for entry in entries if _is_covered(entry)), key=lambda entry: _name_of(entry[1]))
    searched: set[int] = set()
    if isinstance(use, IndexUse) and covered and not _scans(covered, use, spec, keep, each):
        assert isinstance(question, Question)
        for part in _parts(covered, keep):
            own, codes = _codes(part, use, spec, keep, others)
            if codes is not None:
                own, found = _search_read(own, codes, use, spec, question, bounds, keep, each)
                searched |= {index for index, _ in own}
                if found is not None:
                    yield found

    def scan(entries: Sequence[Entry]) -> tuple[list[SliceHits], ScanCounts]:
        if len(entries) > 1:
            return search_together(entries, spec, question, bounds, keep)
        hits, counts = search_slice(*entries[0], spec, question, bounds, keep)
        return [hits], counts

    # The largest first, so that no thread is left alone with one at the end.
    unindexed = [entry for entry in entries if entry[0] not in searched]
    unindexed.sort(key=lambda entry: -entry[1].file_slice.size)
    yield from _scanning(unindexed, each)(scan, list(_together(unindexed, question.is_final)))


def _scanning(entries: Sequence[Entry], each: Each) -> Each:
    """Return the function that maps a scan over slices: on an object store, more of them at once than processors."""
    if _are_local(entries):
        return each
    return _for_scans([entry[1].file_slice.size for entry in entries])


def _are_local(entries: Sequence[Entry]) -> bool:
    bases = [entry[1].file_slice.base_file for entry in entries]
    return all(base is None or scheme_of(base.uri) == "file" for base in bases)


def _for_scans(sizes: Iterable[int]) -> Each:
    """Return the function that maps a scan over files of an object store: several at once, within memory."""
    return partial(parallel.each, most=max(_LEAST_AT_ONCE, parallel.within_memory(max(sizes))), decodes=True)


_for_ranges: Each = partial(parallel.each, decodes=True)
"""Maps a read of a few ranges over files of an object store."""


def _together(entries: Sequence[Entry], is_final: bool) -> Iterator[Sequence[Entry]]:
    """Yield slices in their order: small base files of this machine in groups of up to some bytes, others singly."""
    group: list[Entry] = []
    size = 0
    for entry in entries:
        file_slice, base = entry[1].file_slice, entry[1].file_slice.base_file
        if not is_final or base is None or entry[1].access not in ("index", "parquet") or scheme_of(base.uri) != "file":
            yield [entry]
            continue
        if group and size + file_slice.size > _TOGETHER_BYTES:
            yield group
            group, size = [], 0
        group.append(entry)
        size += file_slice.size
    if group:
        yield group


@dataclass(frozen=True)
class _Codes:
    """A view, and the places of the covered slices' segments in it; None if it has no other segments."""

    view: View
    places: Ints | None = None

    @classmethod
    def of(cls, view: View, covered: int) -> _Codes:
        """Return a view whose first segments are those of the covered slices, so many in number."""
        return cls(view, np.arange(covered) if len(view.bases) - 1 > covered else None)

    def keep_footers(self, files: Sequence[FileInfo | None]) -> None:
        """Have the footers of the covered slices' files read from memory, where the index has them.

        On a local disk they are read faster than a footer is looked for here.
        """
        for number, file in enumerate(files):
            kept = None if file is None or scheme_of(file.uri) == "file" else self._footer(number)
            if file is not None and kept is not None:
                keep_footer(file, kept)

    def _footer(self, number: int) -> KeptFooter | None:
        return self.view.footers[number if self.places is None else int(self.places[number])]

    def pages(self, number: int) -> PageTable | None:
        """Return the pages of a covered slice's base file as its segment lists them, or None."""
        return self.view.pages[number if self.places is None else int(self.places[number])]

    def candidates(self, *arguments: Any, allowed: _Masks | None, **more: Any) -> Candidates:
        """Return the candidates of the view, with segments numbered like the covered slices."""
        found = self.view.candidates(*arguments, allowed=self._in_view(allowed), **more)
        if self.places is None:
            return found
        own = np.full(len(self.view.bases) - 1, -1, np.int64)
        own[self.places] = np.arange(len(self.places))
        return replace(found, segment=own[found.segment])

    def cost_of(self, allowed: _Masks) -> int:
        """Return what it costs to have the codes of allowed rows, as a number of bytes that are read in sequence."""
        return self.view.cost_of(self._in_view(allowed))

    def _in_view(self, allowed: _Masks | None) -> _Masks | None:
        """Return the masks of all segments of the view; of the covered slices, all rows are allowed by default."""
        if self.places is None:
            return allowed
        sizes = np.diff(self.view.bases)
        masks = [np.zeros(size, np.bool_) for size in sizes]
        for number, place in enumerate(self.places):
            masks[place] = np.ones(sizes[place], np.bool_) if allowed is None else allowed[number]
        return masks


def _name_of(access: SliceAccess) -> str:
    assert access.segment is not None
    return access.segment.segment


def _kept_with_others(
    use: IndexUse, segments: Sequence[ManifestEntry], others: Sequence[ManifestEntry]
) -> _Codes | None:
    """Return the cached view of all segments of the index, or None without one, or if `segments` alone are cached."""
    if not others or kept_view(use.folder, use.model_id, segments) is not None:
        return None
    whole = sorted([*segments, *others], key=lambda entry: entry.segment)
    view = kept_view(use.folder, use.model_id, whole)
    place_of = {entry.segment: place for place, entry in enumerate(whole)}
    return None if view is None else _Codes(view, np.array([place_of[entry.segment] for entry in segments], np.int64))


def _is_covered(entry: Entry) -> bool:
    return entry[1].access == "index" and entry[1].segment is not None


def _scans(covered: Sequence[Entry], use: IndexUse, spec: ScanSpec, keep: bool, each: Each) -> bool:
    """Return True if a search scans the covered slices.

    Without a filter an exact search does if all their vectors are in memory. With one, any search does if the vectors
    of the rows that pass are read singly for less than what the index costs, which is read whole.
    """
    if not keep:
        return False
    return _holds_all(covered, use, spec) if spec.predicate is None else _scans_few(covered, use, spec, each)


def _holds_all(covered: Sequence[Entry], use: IndexUse, spec: ScanSpec) -> bool:
    """Return True if an exact search finds all vectors in memory."""
    return use.certain and all(open_base(access, spec, keep=True).holds_vectors() for _, access in covered)


def _scans_few(covered: Sequence[Entry], use: IndexUse, spec: ScanSpec, each: Each) -> bool:
    """Return True if it costs less to read the vectors of rows that pass a filter than whole segments."""
    segments = [access.segment for _, access in covered if access.segment is not None]
    size = sum(segment.bytes for segment in segments)
    # Of packs, single lists are read. What is too large to be kept would let each search evaluate the filter twice.
    if any(segment.pack for segment in segments) or size > process_cache().budget:
        return False
    if kept_view(use.folder, use.model_id, segments) is not None:
        return False
    readers = _Readers(covered, spec, keep=True)
    positions = [np.flatnonzero(mask) for mask in allowed_rows(readers, spec, ScanCounts(), each)]
    if sum(map(len, positions)) > _FEW_ALLOWED:
        return False
    at_once = each if readers.are_local else _for_ranges
    costs = list(at_once(lambda number: readers[number].cost_singly(positions[number]), range(len(covered))))
    known = [cost for cost in costs if cost is not None]
    return len(known) == len(costs) and sum(known) < size


def scans_only(slices: Sequence[SliceAccess], use: IndexUse, spec: ScanSpec) -> bool:
    """Return True if this process would scan all slices although an index covers some: their vectors are in memory."""
    covered = [entry for entry in enumerate(slices) if _is_covered(entry)]
    return not isinstance(use, LanceIndexUse) and spec.predicate is None and _holds_all(covered, use, spec)


def _parts(covered: Sequence[Entry], keep: bool) -> Iterator[Sequence[Entry]]:
    """Yield the slices, all together if their codes fit in the cache, else in parts that fit in half of it."""
    budget = process_cache().budget if keep else 0
    if not budget or sum(access.size for _, access in covered) <= budget:
        yield covered
        return
    part: list[Entry] = []
    size = 0
    for entry in covered:
        if part and size + entry[1].size > budget // 2:
            yield part
            part, size = [], 0
        part.append(entry)
        size += entry[1].size
    yield part


def _codes(
    covered: Sequence[Entry], use: IndexUse, spec: ScanSpec, keep: bool, others: Sequence[ManifestEntry]
) -> tuple[Sequence[Entry], _Codes | None]:
    """Return the covered slices whose segments can be read, and their codes; None if there are no such slices."""
    try:
        return covered, _loaded(covered, use, spec, keep, others)
    except (DataFileError, UnsupportedTableError):
        covered = without_damaged(covered, use, spec)
        return covered, _loaded(covered, use, spec, keep, ()) if covered else None


def _loaded(
    covered: Sequence[Entry], use: IndexUse, spec: ScanSpec, keep: bool, others: Sequence[ManifestEntry]
) -> _Codes:
    segments = [access.segment for _, access in covered if access.segment is not None]
    codes = _kept_with_others(use, segments, others) if keep else None
    if codes is None:
        whole = keep and use.lists_at_once and scheme_of(use.folder) == "file"
        view = load_view(use.folder, use.model_id, segments, spec.options, keep, whole=whole)
        codes = _Codes.of(view, len(segments))
    codes.keep_footers([access.file_slice.base_file for _, access in covered])
    return codes


def _search_read(
    own: Sequence[Entry],
    codes: _Codes,
    use: IndexUse,
    spec: ScanSpec,
    question: Question,
    bounds: Bounds,
    keep: bool,
    each: Each,
) -> tuple[Sequence[Entry], tuple[list[SliceHits], ScanCounts] | None]:
    """Search covered slices; return those that could be searched, and their hits, None if there are no such slices.

    Lists are read during the search. If one cannot be read, the search begins again, without the slices of segments
    that are damaged.
    """
    try:
        return own, _search_indexed(own, codes, use, spec, question, bounds, keep, each)
    except UnreadableListError:
        forget_view(use.folder, use.model_id, [access.segment for _, access in own if access.segment is not None])
        able = without_damaged(own, use, spec)
        if not able:
            return able, None
        return able, _search_indexed(able, _loaded(able, use, spec, keep, ()), use, spec, question, bounds, keep, each)


def _search_indexed(
    entries: Sequence[tuple[int, SliceAccess]],
    codes: _Codes,
    use: IndexUse,
    spec: ScanSpec,
    question: Question,
    bounds: Bounds,
    keep: bool,
    each: Each,
) -> tuple[list[SliceHits], ScanCounts]:
    counts = ScanCounts(unseen=None if use.certain else np.full(len(question.vectors), np.inf))
    readers = _Readers(entries, spec, keep)
    allowed = _allowed(readers, codes, spec, counts, each)
    # A search for as many rows as are allowed finds them all, without their codes.
    nearest = max(question.k, _few_allowed(readers, codes, allowed))
    blocks: list[list[tuple[int, Hits]]] = [[] for _ in entries]
    for first in range(0, len(question.vectors), question.block_queries):
        part = slice(first, first + question.block_queries)
        vectors, known = question.vectors[part], Bounds(bounds.distance[part], bounds.is_full[part])
        question.deadline.check()
        found = codes.candidates(
            vectors,
            nearest,
            nprobes=use.nprobes,
            candidates=use.candidates(question.k),
            certain=use.certain,
            allowed=allowed,
            most=max(_MOST_CANDIDATES, nearest * 4) if use.certain else None,
        )
        if found.unseen is not None and counts.unseen is not None:
            counts.unseen[part] = found.unseen
        numbers = range(len(entries)) if len(found.given_up) else np.unique(found.segment).tolist()
        few = len(found) <= MOST_ROWS and not len(found.given_up)
        ahead = question.ahead if few and not readers.are_local else None
        scoring = _Scoring(readers, spec.column, codes, found, vectors, question, known, use.reads, ahead)
        if scoring.ahead is not None:
            _begin_rows(readers, found, scoring.ahead)
        for segment, hits, bytes_read in _scored(scoring, numbers, spec, each):
            blocks[segment].append((first, hits))
            counts.bytes_read += bytes_read
    if question.ahead is not None:
        question.ahead.wait()
    question.deadline.check(slices=len(entries))
    parts = [SliceHits(index, joined(hits)) for (index, _), hits in zip(entries, blocks, strict=True) if hits]
    return parts, counts


def _begin_rows(readers: _Readers, found: Candidates, ahead: RowsAhead) -> None:
    """Begin to read the columns of all candidates of one query."""
    for number in np.unique(found.segment).tolist():
        own = np.unique(found.position[found.segment == number])
        ahead.begin(readers.index_of(number), readers.opened_again(number), own)


class _Readers(Sequence[ParquetSlice]):
    """The base files of slices, each opened at first use: of many files, few have candidates."""

    def __init__(self, entries: Sequence[Entry], spec: ScanSpec, keep: bool) -> None:
        self._entries, self._spec, self._keep = entries, spec, keep
        self._opened: dict[int, ParquetSlice] = {}

    @property
    def choose(self) -> bool:
        """Return True if the predicate or a deletion may leave out rows."""
        slices = (access.file_slice for _, access in self._entries)
        return self._spec.predicate is not None or any(each.log_files or each.deleted is not None for each in slices)

    @cached_property
    def are_local(self) -> bool:
        """Return True if all of the files are on a local disk."""
        return _are_local(self._entries)

    def index_of(self, number: int) -> int:
        """Return the place of a slice in the plan."""
        return self._entries[number][0]

    def opened_again(self, number: int) -> ParquetSlice:
        """Return another reader of a slice's base file: a reader serves one thread."""
        return open_base(self._entries[number][1], self._spec, self._keep)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, number: Any) -> Any:
        if number not in self._opened:
            self._opened.setdefault(number, open_base(self._entries[number][1], self._spec, self._keep))
        return self._opened[number]


@dataclass(frozen=True)
class _Scoring:
    """The candidates of a block of queries, and what is needed to score them."""

    readers: _Readers
    column: VectorColumn
    codes: _Codes
    found: Candidates
    vectors: Floats
    question: Question
    known: Bounds
    reads: RangeReads
    ahead: RowsAhead | None = None

    def top(self, asking: slice | Ints = slice(None)) -> TopK:
        """Return an empty search for the queries, or for those numbered `asking`."""
        known = Bounds(self.known.distance[asking], self.known.is_full[asking])
        return TopK(self.vectors[asking], self.question.metric, self.question.k, known)


@dataclass(frozen=True)
class _Rows:
    """The vectors of candidates of some segments.

    The block has those of ``segments[i]`` from ``begins[i]`` to ``begins[i + 1]``. `row` is the place of each candidate
    in the block and `query` its query, both of shape (c,).
    """

    segments: Sequence[int]
    begins: Ints
    block: VectorBlock
    row: Ints
    query: Ints
    bytes_read: Sequence[int]

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        """Return the rows of all parts, one part after another."""
        if len(parts) == 1:
            return parts[0]
        begins = np.cumsum([0, *(len(part.block) for part in parts)])
        return cls(
            [segment for part in parts for segment in part.segments],
            np.concatenate([[0], *(part.begins[1:] + begin for part, begin in zip(parts, begins[:-1], strict=True))]),
            one_block([part.block for part in parts]),
            np.concatenate([part.row + begin for part, begin in zip(parts, begins[:-1], strict=True)]),
            np.concatenate([part.query for part in parts]),
            [count for part in parts for count in part.bytes_read],
        )


def _scored(scoring: _Scoring, segments: Sequence[int], spec: ScanSpec, each: Each) -> Iterator[tuple[int, Hits, int]]:
    """Yield the hits of each segment, and the number of bytes read for them."""
    if not segments:
        return
    is_local = all(scoring.readers[segment].is_local for segment in segments)
    given_up = len(scoring.found.given_up) > 0
    if given_up or len(scoring.found) > _FEW:

        def score(segment: int) -> tuple[int, Hits, int]:
            ((_, hits, count),) = _hits_of(_read(scoring, segment), scoring, spec)
            if not given_up:
                return segment, hits, count
            others, more = _scanned(scoring, segment, spec)
            return segment, joined([(0, hits), (0, others)]), count + more

        at_once = _for_scans([scoring.readers[segment].size for segment in segments]) if given_up else _for_ranges
        yield from (each if is_local else at_once)(score, segments)
    else:
        found = _read_at_places(scoring) if is_local else None
        if found is None:
            apart = map if is_local else _for_ranges
            found = _Rows.joined(list(apart(partial(_read, scoring), segments)))
        yield from _hits_of(found, scoring, spec)


def _read(scoring: _Scoring, segment: int) -> _Rows:
    scoring.question.deadline.check()
    found, counts = scoring.found, ScanCounts()
    here = np.flatnonzero(found.segment == segment)
    distinct, row = np.unique(found.position[here], return_inverse=True)
    reader = scoring.readers[segment]
    vectors = partial(reader.vectors_at, distinct, counts, scoring.reads, scoring.codes.pages(segment))
    ahead, index = scoring.ahead, scoring.readers.index_of(segment)
    block = vectors() if ahead is None else ahead.read_with(index, reader, distinct, vectors)
    if len(block) < len(distinct):
        raise _another_file(reader)
    return _Rows([segment], np.array([0, len(block)]), block, row, found.query[here], [counts.bytes_read])


def _read_at_places(scoring: _Scoring) -> _Rows | None:
    """Return the candidates' vectors, each read from its place in a local file, or None if not all places are known.

    A block for each of many files with one or two candidates takes longer than the reads.
    """
    found, column = scoring.found, scoring.column
    order = np.lexsort((found.position, found.segment))
    segment, position = found.segment[order], found.position[order]
    first = np.append(True, (segment[1:] != segment[:-1]) | (position[1:] != position[:-1]))
    row = np.empty(len(order), np.int64)
    row[order] = np.cumsum(first) - 1
    segment, position = segment[first], position[first]
    begins = np.flatnonzero(np.append(True, segment[1:] != segment[:-1]))
    segments = segment[begins].tolist()
    begins = np.append(begins, len(segment))
    stored: list[bytes] = []
    for number, start, stop in zip(segments, begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        scoring.question.deadline.check()
        own = scoring.readers[number].stored_vectors(position[start:stop], scoring.codes.pages(number), scoring.reads)
        if own is None:
            return None
        stored.append(own)
    values = np.frombuffer(b"".join(stored), column.dtype).reshape(-1, column.dimension)
    block, _ = make_block(values, np.arange(len(values)))
    if len(block) < len(position):
        lacking = np.setdiff1d(np.arange(len(position)), block.positions)
        raise _another_file(scoring.readers[int(segment[lacking[0]])])
    return _Rows(segments, begins, replace(block, positions=position), row, found.query, [len(own) for own in stored])


def _another_file(reader: ParquetSlice) -> DataFileError:
    """Return the error of an index that names rows without a vector."""
    return DataFileError(
        f"the index names rows of '{reader.uri}' that hold no vector: its segment is not of this file; "
        "see hudi_vector.index.verify"
    )


def _hits_of(rows: _Rows, scoring: _Scoring, spec: ScanSpec) -> list[tuple[int, Hits, int]]:
    """Return the hits of several segments by one search, at most k for each query and segment."""
    top = scoring.top()
    top.offer_pairs(replace(rows.block, positions=np.arange(len(rows.block))), rows.row, rows.query)
    found = top.hits()
    scored = []
    begins = rows.begins.tolist()
    for number, segment in enumerate(rows.segments):
        inside = (found.position >= begins[number]) & (found.position < begins[number + 1])
        hits = found.take(inside)
        hits = replace(hits, position=rows.block.positions[hits.position])
        if len(hits) > top.k:
            hits = break_ties(hits, top.k, partial(tie_keys, scoring.readers[segment], spec))
        scored.append((segment, hits, rows.bytes_read[number]))
    return scored


def _scanned(scoring: _Scoring, segment: int, spec: ScanSpec) -> tuple[Hits, int]:
    """Return the hits of the queries with too many candidates, by a scan of the segment's file, and the bytes read."""
    ask, reader, counts = scoring.found.given_up, scoring.readers[segment], ScanCounts()
    top = scoring.top(ask)
    for block in reader.blocks(counts):
        if len(block):
            top.offer(block)
    hits = settled(top, reader, spec)
    return Hits(ask[hits.query], hits.distance, hits.position), counts.bytes_read


def _allowed(readers: _Readers, codes: _Codes, spec: ScanSpec, counts: ScanCounts, each: Each) -> _Masks | None:
    """Return a mask of the rows of each file that are neither filtered out nor deleted, and count the rows.

    Returns None if all rows are allowed. On an object store, the rows of the lists are read at the same time.
    """
    if not readers.choose and codes.places is None:
        counts.rows += codes.view.rows
        counts.nulls += codes.view.rows - codes.view.vectors
        return None
    if readers.are_local:
        return allowed_rows(readers, spec, counts, each)
    masks, _ = parallel.together(lambda: allowed_rows(readers, spec, counts, each), codes.view.need_rows)
    found: _Masks = masks
    return found


def _few_allowed(readers: _Readers, codes: _Codes, allowed: _Masks | None) -> int:
    """Return how many rows are allowed if it costs less to read their vectors than their codes, else 0."""
    count = 0 if allowed is None else sum(map(np.count_nonzero, allowed))
    if allowed is None or not 0 < count <= _FEW_ALLOWED:
        return 0
    most, spent = codes.cost_of(allowed), 0
    for number, mask in enumerate(allowed):
        if spent >= most:
            return 0
        if mask.any():
            cost = readers[number].cost_of(np.flatnonzero(mask), codes.pages(number))
            spent += most if cost is None else cost
    if spent >= most:
        return 0
    codes.view.spend(spent)
    return count
