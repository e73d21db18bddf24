"""The comparison of an answer with the one that a receipt holds, row by row and bit by bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hudi_vector.query.receipts.receipt import FoundRow

__all__ = ["Difference", "differences"]


@dataclass(frozen=True)
class Difference:
    """A row in which two answers differ.

    Attributes:
        query: The number of the query, from 0.
        change: ``missing`` if the later answer does not have the row, ``new`` if only it has the row, ``distance`` if
            the distances differ, ``rank`` if only the ranks do.
        key: The record key, None in a table without record keys.
        partition: The partition path, None in a table without record keys.
        file: The file of the row, relative to the table; None for a row that was merged from log files.
        row: The number of the row in the file, from 0.
        was_rank: The rank in the receipt, from 1.
        is_rank: The rank now.
        was_distance: The distance in the receipt.
        is_distance: The distance now.
    """

    query: int
    change: str
    key: str | None
    partition: str | None
    file: str | None
    row: int | None
    was_rank: int | None
    is_rank: int | None
    was_distance: float | None
    is_distance: float | None


def differences(before: Iterable[FoundRow], after: Iterable[FoundRow]) -> Iterator[Difference]:
    """Yield the differences between two answers, by query and rank; rows that only the later one has come last."""
    then, now = dict(_numbered(before)), dict(_numbered(after))
    for key, was in then.items():
        found = now.get(key)
        if found is None:
            yield _difference("missing", was, was, None)
        elif found.distance != was.distance:
            yield _difference("distance", was, was, found)
        elif found.rank != was.rank:
            yield _difference("rank", was, was, found)
    for key, found in now.items():
        if key not in then:
            yield _difference("new", found, None, found)


def _numbered(rows: Iterable[FoundRow]) -> Iterator[tuple[tuple[object, ...], FoundRow]]:
    """Yield rows by what they are known by; rows with one record key, which a table may have, are numbered."""
    seen: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        known = (row.query, *row.identity)
        yield (*known, seen[known]), row
        seen[known] += 1


def _difference(change: str, row: FoundRow, was: FoundRow | None, found: FoundRow | None) -> Difference:
    return Difference(
        row.query,
        change,
        row.key,
        row.partition,
        row.file,
        row.row,
        None if was is None else was.rank,
        None if found is None else found.rank,
        None if was is None else float.fromhex(was.distance),
        None if found is None else float.fromhex(found.distance),
    )
