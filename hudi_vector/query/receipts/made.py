"""The receipt that is made of the answer of a search."""

from __future__ import annotations

import hashlib
import math
import re

import numpy as np

from hudi_vector.errors import HudiVectorError, UnsupportedTableError
from hudi_vector.query.answered import Answered
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import IndexUse, SearchPlan
from hudi_vector.query.receipts.receipt import (
    SETTINGS,
    VERSION,
    Access,
    Arguments,
    Files,
    FoundRow,
    Groups,
    IndexRead,
    Queries,
    Receipt,
    ReceiptContent,
    SnapshotRead,
)
from hudi_vector.query.winners import fetch_rows
from hudi_vector.read.predicate.form import Predicate, columns, parse, to_text
from hudi_vector.read.spec import TIE_COLUMNS
from hudi_vector.storage import scheme_of
from hudi_vector.version import __version__

__all__ = ["files_of", "receipt_of", "rows_of", "without_secrets"]

_INSTANT = re.compile(r"\d{14}(\d{3})?")
_AZURE = frozenset({"abfs", "abfss", "wasb", "wasbs"})


def receipt_of(answered: Answered, with_vectors: bool) -> Receipt:
    """Return the receipt of a search; record keys of its rows are read from the table.

    Raises UnsupportedTableError if the search was not one of a Hudi table, or if Spark read it, and DataFileError if a
    file with a row of the answer is gone already.
    """
    plan = answered.plan
    _require_replayable(plan)
    limit, access = plan.max_distance, _access_of(plan)
    named = SETTINGS if access.mode == "approximate" else ()
    return Receipt.of(
        ReceiptContent(
            version=VERSION,
            package=__version__,
            table=without_secrets(plan.snapshot.source.hadoop_path),
            snapshot=_snapshot_read(plan),
            search=Arguments(
                column=plan.spec.column.name,
                metric=plan.metric,
                k=plan.k,
                max_distance=None if limit is None or limit == math.inf else float(limit).hex(),
                filter=_filter_of(plan, answered.filter),
                zone=plan.spec.zone,
                columns=tuple(answered.columns),
                groups=_groups_of(plan.grouping),
            ),
            access=access,
            settings={key: answered.conf[key] for key in named if key in answered.conf},
            queries=Queries.of(answered.vectors, with_vectors),
            rows=rows_of(plan, answered.winners),
        )
    )


def _require_replayable(plan: SearchPlan) -> None:
    name = plan.snapshot.source.name
    if plan.snapshot.instant is None:
        raise UnsupportedTableError(
            f"a receipt names an instant to come back to, and '{name}' has none: it is not a Hudi table, or it has no "
            "commit yet"
        )
    if plan.execution == "spark":
        raise UnsupportedTableError(
            f"a receipt holds where rows lie, and '{name}' was {plan.reason}, which does not say; there are receipts "
            "of searches that this package reads itself"
        )


def rows_of(plan: SearchPlan, winners: Winners) -> tuple[FoundRow, ...]:
    """Return the rows of an answer, by query and rank, with their record keys where the table has them."""
    count, base = len(winners), plan.snapshot.source.uri + "/"
    keys: list[list[str | None]] = [[None] * count, [None] * count]
    if plan.spec.has_keys:
        names = list(TIE_COLUMNS[:2])
        fetched = fetch_rows(plan, winners, names, keep=True)
        keys = [fetched.column(name).to_pylist() for name in names]
    files: dict[int, str | None] = {}
    for number in np.unique(winners.slice_index).tolist():
        access = plan.slices[number]
        file = None if access.is_merged else access.file_slice.base_file
        files[number] = None if file is None else file.uri.removeprefix(base)
    places = [files[number] for number in winners.slice_index.tolist()]
    return tuple(
        FoundRow(query, rank, key, partition, file, None if file is None else row, distance.hex())
        for query, rank, key, partition, file, row, distance in zip(
            winners.query.tolist(),
            winners.rank.tolist(),
            *keys,
            places,
            winners.position.tolist(),
            winners.distance.tolist(),
            strict=True,
        )
    )


def files_of(plan: SearchPlan) -> Files:
    """Return the data files that a plan reads, by their paths below the table and their sizes."""
    base = plan.snapshot.source.uri + "/"
    read = {file.uri.removeprefix(base): file.size for access in plan.slices for file in access.file_slice.files}
    text = "\n".join(f"{path} {size}" for path, size in sorted(read.items()))
    return Files(len(read), sum(read.values()), hashlib.sha256(text.encode()).hexdigest())


def _snapshot_read(plan: SearchPlan) -> SnapshotRead:
    snapshot = plan.snapshot
    assert snapshot.instant is not None
    return SnapshotRead(
        instant=snapshot.instant,
        completed=snapshot.watermark or snapshot.instant,
        pending=tuple(sorted(entry for entry in snapshot.pending if entry <= snapshot.instant)),
        as_of=snapshot.as_of if snapshot.as_of and _INSTANT.fullmatch(snapshot.as_of) else None,
        files=files_of(plan),
    )


def _access_of(plan: SearchPlan) -> Access:
    use = plan.index
    is_exact = use is None or use.certain
    read = None if use is None else _index_read(use, plan.snapshot.source.uri)
    return Access("exact" if is_exact else "approximate", plan.execution, plan.access_counts, read)


def _index_read(use: IndexUse, table: str) -> IndexRead:
    folder = without_secrets(use.folder.removeprefix(table + "/"))
    return IndexRead(
        folder, use.kind, use.metric, use.model_id, use.generation, use.manifest, use.nprobes, use.refine_factor
    )


def _groups_of(grouping: Grouping | None) -> Groups | None:
    return None if grouping is None else Groups(grouping.columns, grouping.per_group, grouping.drop_nulls)


def _filter_of(plan: SearchPlan, given: str | None) -> str | None:
    """Return a text that `parse` understands as the filter of a plan, None without one.

    `given` is the user's text, None if that may name columns otherwise; only Spark may be able to parse it.
    """
    wanted, schema = plan.predicate, plan.spec.schema
    if wanted is None or (plan.filter_text is None and _with_groups(None, plan) == wanted):
        return None
    likely = None
    for text in (given, to_text(wanted)):
        try:
            found = None if text is None else parse(text, schema)
        except HudiVectorError:
            continue
        if wanted in (found, _with_groups(found, plan)):
            return text
        # Catalyst writes some conditions in another form, of the same meaning.
        if found is not None and text == given and columns(found) == columns(wanted):
            likely = text
    if likely is None:
        raise UnsupportedTableError(
            f"a receipt holds the filter as text, and only Spark understands {plan.filter_text!r}; write it by the "
            "columns of the table itself, with the operators of docs/reference/filters.md"
        )
    return likely


def _with_groups(predicate: Predicate | None, plan: SearchPlan) -> Predicate | None:
    """Return a filter with what a search for groups adds to it."""
    return predicate if plan.grouping is None else plan.grouping.filtered(predicate, plan.spec.schema)


def without_secrets(uri: str) -> str:
    """Return a path or URI without user, password and query, which may hold keys.

    Example:
        >>> without_secrets("s3a://KEY:SECRET@lake/t?token=x"), without_secrets("/a@b/t")
        ('s3a://lake/t', '/a@b/t')
    """
    scheme, found, rest = uri.partition("://")
    if not found or scheme_of(uri) == "file":
        return uri
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    # In Azure's URIs a container comes before the @.
    kept = place if at and scheme.lower() in _AZURE and ":" not in user else host
    return f"{scheme}://{kept}{slash}{re.split('[?#]', path, maxsplit=1)[0]}"
