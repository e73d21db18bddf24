"""The search of a receipt, run again as of the same instant, by the same index and effort."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import DataFileError, InstantNotAvailableError, number_of
from hudi_vector.index.catalog import Index
from hudi_vector.index.manifest import manifest_named, newest_manifest
from hudi_vector.kernels.metrics import Floats
from hudi_vector.query.execute import Asked as Queried
from hudi_vector.query.grouped.question import question_of
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.local import run_local
from hudi_vector.query.merge import Winners
from hudi_vector.query.opened.request import Asked, Found, require_readable
from hudi_vector.query.opened.vector_table import SearchHits, hits_of
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.receipts.made import files_of, rows_of
from hudi_vector.query.receipts.receipt import Receipt, ReceiptContent
from hudi_vector.query.replays.compared import Difference, differences
from hudi_vector.query.report import Progress
from hudi_vector.query.tuning import Tuning
from hudi_vector.shown import Shown
from hudi_vector.storage import join, open_storage
from hudi_vector.table.instants import Seen
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Replayed", "searched_again"]

Run = Callable[[SearchPlan, Queried, Mapping[str, str], Progress], Winners]
"""A function that searches by a plan: on this machine, or on executors."""


@dataclass(frozen=True, repr=False)
class Replayed(Shown):
    """The outcome of `hudi_vector.replay`.

    Attributes:
        same: True if the rows, their order and their distances are those of the receipt, to the last bit.
        differences: The rows in which the answers differ.
        why: Why the answer may differ, in one sentence; empty if it must be the same.
        hits: The rows found now, with their columns, as a search of an opened table gives them.
        receipt: The receipt.

    Example:
        >>> with hv.open("/tables/products", column="embedding") as t:
        ...     receipt = t.search(q, k=5).report.receipt()
        >>> again = hv.replay(None, receipt)
        >>> again.same, again.why, len(again.hits)
        (True, '', 5)
    """

    same: bool
    differences: tuple[Difference, ...]
    why: str
    hits: SearchHits
    receipt: Receipt

    def rows(self) -> list[dict[str, Any]]:
        """Return the differences, each as a dictionary.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     hv.replay(None, t.search(q, k=5).report.receipt()).rows()
            []
        """
        return [dict(vars(each)) for each in self.differences]

    def lines(self) -> Iterator[str]:
        """Yield one or two sentences for people: the outcome, and why it may differ.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     list(hv.replay(None, t.search(q, k=5).report.receipt()).lines())
            ['same: 5 rows at instant ..., with the same distances to the last bit']
        """
        content = self.receipt.content
        at = f"at instant {content.snapshot.instant}"
        if self.same:
            yield f"same: {number_of(len(content.rows), 'row')} {at}, with the same distances to the last bit"
        else:
            yield (
                f"differs: {number_of(len(self.differences), 'difference')} from "
                f"{number_of(len(content.rows), 'row')} {at}"
            )
        if self.why:
            yield self.why

    def to_pandas(self) -> pd.DataFrame:
        """Return the differences as a DataFrame of pandas.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     len(hv.replay(None, t.search(q, k=5).report.receipt()).to_pandas())
            0
        """
        return super().to_pandas()


@dataclass(frozen=True)
class _Indexes:
    """The index of an approximate search as it is now, none if it is gone, and why the answer may differ."""

    found: tuple[Index, ...]
    why: str


def searched_again(
    receipt: Receipt, source: Source, vectors: Floats, conf: Mapping[str, str], run: Run = run_local
) -> Replayed:
    """Search a table as of a receipt's instant, and compare the answer with the receipt's.

    `source` is the table, which may have moved; `conf` are settings, as text. Raises InstantNotAvailableError, with the
    file that Hudi's clean took, if the table no longer has the files of that instant.
    """
    content, table = receipt.content, NativeTable(source)
    settings = {**conf, **content.settings}
    begun = time.perf_counter()
    seen = _seen(content)
    snapshot = table.snapshot(seen.point)
    indexes = _indexes(content, snapshot)
    plan = _planned(content, vectors, snapshot, settings, indexes)
    if files_of(plan) != content.snapshot.files:
        raise _lost(table, content, seen, plan)
    require_readable(plan)
    progress = Progress()
    progress.seconds["plan"] = time.perf_counter() - begun
    question = question_of(vectors, plan.metric, plan.k, plan.max_distance, plan.grouping)
    try:
        found = Found(plan, run(plan, question, settings, progress), progress, settings, vectors)
        hits = hits_of(found, list(content.search.columns), batch=content.queries.count != 1)
        rows = rows_of(plan, found.winners)
    except DataFileError:
        if table.cleaned_since(seen):
            raise _lost(table, content, seen, plan) from None
        raise
    differ = tuple(differences(content.rows, rows))
    return Replayed(not differ, differ, indexes.why or _why(content, plan), hits, receipt)


def _seen(content: ReceiptContent) -> Seen:
    read = content.snapshot
    return Seen(read.instant, read.completed, read.pending, read.as_of)


def _planned(
    content: ReceiptContent, vectors: Floats, snapshot: Snapshot, conf: Mapping[str, str], indexes: _Indexes
) -> SearchPlan:
    """Return the plan of the search on a snapshot of the same instant, by the same index and effort."""
    asked, used = content.search, content.access.index
    tuning = Tuning("exact")
    if indexes.found and used is not None:
        # An index of one kind that is asked for by its effort is used whatever was measured for it.
        tuning = Tuning("approximate", used.kind, used.nprobes or 1)
    if asked.groups is not None:
        grouping = Grouping(asked.groups.columns, asked.groups.per_group, asked.groups.drop_nulls)
        tuning = replace(tuning, grouping=grouping)
    limit = None if asked.max_distance is None else float.fromhex(asked.max_distance)
    plan = Asked.of(
        snapshot.source.name,
        asked.column,
        vectors,
        asked.k,
        asked.metric,
        asked.filter,
        limit,
        None,
        conf,
        asked.zone,
        tuning,
    ).plan(snapshot, indexes.found)
    if plan.index is not None and used is not None:
        plan = replace(plan, index=replace(plan.index, nprobes=used.nprobes, refine_factor=used.refine_factor))
    return plan


def _indexes(content: ReceiptContent, snapshot: Snapshot) -> _Indexes:
    """Return the index of an approximate search: the generation of the receipt, or else the newest one."""
    used = content.access.index
    if content.access.mode == "exact" or used is None:
        return _Indexes((), "")
    table, options = snapshot.source.uri, snapshot.source.options
    folder = used.folder if "://" in used.folder else join(table, used.folder)
    storage = open_storage(folder, options)
    same = manifest_named(storage, folder, used.manifest)
    if same is not None:
        return _Indexes((Index(table, folder, same),), "")
    newest = newest_manifest(storage, folder)
    name = f"generation {used.generation} of the index {used.metric}-{used.kind}"
    if newest is None:
        return _Indexes((), f"the answer may differ: {name} is gone, so that every row was compared")
    return _Indexes(
        (Index(table, folder, newest),), f"the answer may differ: {name} was replaced by generation {newest.generation}"
    )


def _why(content: ReceiptContent, plan: SearchPlan) -> str:
    """Return why an approximate answer by the same generation may differ, or nothing."""
    access = content.access
    if access.mode == "exact":
        return ""
    if access.slices != plan.access_counts:
        return "the answer may differ: the index covers other file slices than it did"
    if access.execution == "distributed":
        return "the answer may differ: executors searched groups of file slices, which may be others now"
    return ""


def _lost(table: NativeTable, content: ReceiptContent, seen: Seen, plan: SearchPlan) -> InstantNotAvailableError:
    """Return the error that says which file of the snapshot is gone, and which clean took it."""
    name, instant = table.source.name, content.snapshot.instant
    begin = f"the answer at instant {instant} of '{name}' cannot be given again: "
    cleaned = table.cleaned_since(seen)
    if cleaned:
        path, clean = cleaned[0]
        more = f" and {len(cleaned) - 1} more" if len(cleaned) > 1 else ""
        return InstantNotAvailableError(f"{begin}Hudi's clean of {clean} took the file '{path}'{more}")
    then, now = content.snapshot.files, files_of(plan)
    there = {file.uri for access in plan.slices for file in access.file_slice.files}
    held = next((row for row in content.rows if row.file and join(table.source.uri, row.file) not in there), None)
    if held is not None:
        return InstantNotAvailableError(
            f"{begin}the file '{held.file}', which held a row of it, is gone, and no clean on the timeline names it"
        )
    return InstantNotAvailableError(
        f"{begin}its {number_of(then.count, 'file')} had {then.bytes} bytes, and the {now.count} that are there have "
        f"{now.bytes}; "
        "they were removed by a restore or by a clean that is archived, or were changed"
    )
