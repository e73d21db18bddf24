"""The route over files with an external index, in a directory that is shared with searches of the same files."""

from __future__ import annotations

from dataclasses import replace

from hudi_vector import options
from hudi_vector.errors import number_of
from hudi_vector.executors.distributed import on_executors
from hudi_vector.index.build import Parameters, indexable_files
from hudi_vector.index.reachable import require_reachable
from hudi_vector.query.opened.external import build_external, external_indexes
from hudi_vector.spark.join.request import JoinRequest
from hudi_vector.spark.join.routes.ways import Way, snapshot_way

__all__ = ["external_way"]


def external_way(request: JoinRequest, queries: int, asked: bool, build: bool) -> Way:
    """Return the route over the right side's files with an external index, or with the reason why it is barred.

    Args:
        request: The join.
        queries: The number of left rows that are searched at once.
        asked: Whether the setting names this route: then small files are searched by it too, and rows may be missed.
        build: Whether a missing or incomplete index is built now.
    """
    right, conf = request.right, request.conf
    assert right.snapshot is not None
    tuning = request.tuning.settled(conf)
    directory = options.INDEX_EXTERNAL_DIR.read(conf)
    barred = _barred(request, right.snapshot.size, asked or tuning.target(None) is not None, asked)
    if tuning.mode == "exact":
        barred = "mode is 'exact', which uses no index"
    elif tuning.grouping is not None and request.k is not None:
        barred = barred or tuning.grouping.without_index(request.k)
    if barred:
        return Way(None, None, right.physical, barred=barred)
    column = right.physical[right.column.name]
    context = request.spark.sparkContext
    each = on_executors(context)
    source = right.snapshot.source
    require_reachable(directory, str(context.master), context.defaultParallelism, source.options, each)
    indexes = [i for i in external_indexes(right.snapshot, column, directory) if i.manifest.metric == request.metric]
    files = indexable_files(right.snapshot)
    if not any(len(index.covered(files)) == len(files) for index in indexes):
        if not build:
            return Way(
                None, None, right.physical, f"An index of {number_of(len(files), 'file')} is made in {directory}"
            )
        indexes = [build_external(right.snapshot, column, Parameters(metric=request.metric), directory, each)]
    if tuning.target(None) is None:
        tuning = replace(tuning, algorithm=indexes[0].manifest.kind)
    return snapshot_way(request, right.snapshot, right.physical, queries, tuning, indexes)


def _barred(request: JoinRequest, size: int, may_miss: bool, asked: bool) -> str:
    """Return why the join does not use an external index, or an empty text; `size` is the bytes of the files."""
    conf, small = request.conf, options.JOIN_BROADCAST_MAX_BYTES.read(request.conf)
    if options.INDEX_EXTERNAL_ENABLED.read(conf) == "false":
        return f"{options.INDEX_EXTERNAL_ENABLED.key} = false"
    if not options.INDEX_EXTERNAL_DIR.read(conf):
        return f"{options.INDEX_EXTERNAL_DIR.key} names no directory for it"
    if request.k is None:
        return "rows within a distance are found by reading every vector"
    if not may_miss:
        return "every vector is read once for all left rows where the answer has to be exact"
    return "" if asked or size > small else f"{size} bytes are read faster than an index of them"
