"""Hudi's own clustering: what it would rewrite, and the run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.table.model import FileSlice
from hudi_vector.table.native import NativeTable

if TYPE_CHECKING:
    from hudi_vector.table_services.compaction_run import Compaction

__all__ = ["CLUSTER", "ClusteredGroup", "all_groups", "cluster_with_hudi", "groups_of_hudi", "require_no_comma"]

CLUSTER = "cluster"
_SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"


@dataclass(frozen=True)
class ClusteredGroup:
    """A file group that a clustering rewrites: its place, and the bytes of its newest base file and log files."""

    path: str
    bytes: int

    def row(self) -> dict[str, Any]:
        """What is reported of it."""
        return {
            "path": self.path,
            "bytes": self.bytes,
            "live": self.bytes,
            "action": CLUSTER,
            "reason": "its rows are put in order",
        }


def all_groups(work: Compaction) -> list[ClusteredGroup]:
    """All file groups of the newest snapshot, by path."""
    return [_group(each) for each in sorted(_slices(work), key=_place)]


def groups_of_hudi(work: Compaction, order: Sequence[str], options: Mapping[str, str]) -> list[ClusteredGroup]:
    """The file groups that Hudi would cluster, by path; nothing is scheduled.

    Args:
        work: The table.
        order: The columns by which rows would be sorted.
        options: Hudi's settings.
    """
    from hudi_vector.write.client import hudi_client
    from hudi_vector.write.failures import in_one_sentence

    slices = {_place(each): each for each in _slices(work)}
    jvm: Any = work.spark._jvm
    hudi = jvm.org.apache.hudi
    settings = {**options, **({_SORT_COLUMNS: ",".join(order)} if order else {})}
    with (
        in_one_sentence(f"planning the clustering of '{work.name}' failed"),
        hudi_client(work.spark, work.path, settings) as client,
    ):
        config, context = client.getConfig(), client.getEngineContext()
        table = hudi.table.HoodieSparkTable.create(config, context)
        actions = hudi.table.action.cluster
        strategy = actions.strategy.ClusteringPlanStrategy.checkAndGetClusteringPlanStrategy(config)
        planner = reduce(getattr, strategy.split("."), jvm)(table, context, config)
        if not planner.checkPrecondition():
            return []
        nothing = hudi.common.util.Option.empty()
        executor = actions.ClusteringPlanActionExecutor(
            context, config, table, client.createNewInstantTime(False), nothing
        )
        partitions = sorted({partition for partition, _ in slices})
        plan = planner.generateClusteringPlan(executor, hudi.util.Lazy.eagerly(partitions))
        if not plan.isPresent():
            return []
        told = [each for group in plan.get().getInputGroups() for each in group.getSlices()]
        places = sorted((each.getPartitionPath(), each.getFileId()) for each in told)
    return [_group(slices[place]) for place in places if place in slices]


def require_no_comma(options: Mapping[str, str]) -> None:
    """Make sure that Hudi's procedure can be given some settings.

    Raises:
        InvalidArgumentError: One holds a comma.
    """
    for key, value in options.items():
        if "," in key + value:
            raise InvalidArgumentError(f"'{key} = {value}' holds a comma, at which Hudi's procedure cuts options")


def cluster_with_hudi(work: Compaction, order: Sequence[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """Let Hudi schedule and execute; gives the instants it completed."""
    from hudi_vector.write.failures import in_one_sentence

    path = work.path.replace("'", "\\'")
    settings = ",".join(f"{key}={value}" for key, value in options.items()).replace("'", "\\'")
    call = f"call run_clustering(path => '{path}', op => 'scheduleAndExecute'"
    call += f", order => '{','.join(order)}'" if order else ""
    call += f", options => '{settings}'" if settings else ""
    with in_one_sentence(f"Hudi's clustering of '{work.name}' failed"):
        done = work.spark.sql(call + ")").collect()
    return tuple(row["timestamp"] for row in done if row["state"] == "COMPLETED")


def _slices(work: Compaction) -> Sequence[FileSlice]:
    return NativeTable(work.table.source).snapshot().file_slices


def _place(each: FileSlice) -> tuple[str, str]:
    return each.partition_path, each.file_id


def _group(each: FileSlice) -> ClusteredGroup:
    return ClusteredGroup("/".join(part for part in _place(each) if part), each.size)
