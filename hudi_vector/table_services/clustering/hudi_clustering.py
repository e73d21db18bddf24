"""Hudi's own clustering: its plan is made first, reviewed, and later scheduled and executed unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import first_line

if TYPE_CHECKING:
    from hudi_vector.table_services.compaction.run import Compaction

__all__ = ["end_with_hudi", "inputs_of", "plan_of_hudi", "run_with_hudi"]

_SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"

Place = tuple[str, str]
"""The partition path and the id of a file group."""


def plan_of_hudi(work: Compaction, order: Sequence[str], options: Mapping[str, str], partitions: Sequence[str]) -> str:
    """Return what Hudi would cluster, as a ``HoodieClusteringPlan`` in Avro's JSON, or "" if nothing; schedule nothing.

    `order` has the columns to sort by, `options` Hudi's settings, and `partitions` the paths of the table's partitions.
    Raise WriteError if Hudi fails.
    """
    settings = {**options, **({_SORT_COLUMNS: ",".join(order)} if order else {})}
    jvm: Any = work.spark._jvm
    hudi = jvm.org.apache.hudi
    with _client(work, settings, "planning") as client:
        config, context = client.getConfig(), client.getEngineContext()
        table = hudi.table.HoodieSparkTable.create(config, context)
        actions = hudi.table.action.cluster
        strategy = actions.strategy.ClusteringPlanStrategy.checkAndGetClusteringPlanStrategy(config)
        planner = reduce(getattr, strategy.split("."), jvm)(table, context, config)
        if not planner.checkPrecondition():
            return ""
        nothing = hudi.common.util.Option.empty()
        executor = actions.ClusteringPlanActionExecutor(
            context, config, table, client.createNewInstantTime(False), nothing
        )
        plan = planner.generateClusteringPlan(executor, hudi.util.Lazy.eagerly(list(partitions)))
        made = plan.isPresent() and not plan.get().getInputGroups().isEmpty()
        return str(hudi.avro.HoodieAvroUtils.avroToJsonString(plan.get(), False)) if made else ""


def inputs_of(plan: str) -> list[list[Place]]:
    """Return, for each group of a plan from `plan_of_hudi`, the file groups whose rows are clustered together.

    Example:
        >>> slices = [{"fileId": {"string": "a"}, "partitionPath": {"string": "p"}}]
        >>> inputs_of(json.dumps({"inputGroups": {"array": [{"slices": {"array": slices}}]}}))
        [[('p', 'a')]]
    """
    if not plan:
        return []
    groups = json.loads(plan)["inputGroups"]["array"]
    return [
        [(_text(each["partitionPath"]), _text(each["fileId"])) for each in group["slices"]["array"]] for group in groups
    ]


def run_with_hudi(
    work: Compaction, plan: str, options: Mapping[str, str], begun: Callable[[str], None], check: Callable[[], None]
) -> str:
    """Schedule a plan from `plan_of_hudi` unchanged, execute it, and return its instant.

    `check` is called before the plan is scheduled, while the lock of the table's writers is held (if they take turns by
    one); an error that it raises stops the clustering. `begun` is called with the instant before anything of it is
    written. Raise WriteError if Hudi fails; as in `end_with_hudi`, the pending instant is then purged.
    """
    jvm: Any = work.spark._jvm
    hudi = jvm.org.apache.hudi
    decoded = _decoded(work, plan)
    with _client(work, options, "scheduling") as client:
        nothing, turns = hudi.common.util.Option.empty(), client.getTransactionManager()
        turns.beginStateChange(nothing, nothing)
        try:
            check()
            instant: str = client.createNewInstantTime(False)
            begun(instant)
            _request(jvm, client, instant, decoded)
        finally:
            turns.endStateChange(nothing)
    work.tell(f"scheduled {instant}")
    end_with_hudi(work, instant, options)
    return instant


def end_with_hudi(work: Compaction, instant: str, options: Mapping[str, str]) -> None:
    """Execute a pending clustering instant, which may have been begun already.

    Raise WriteError if Hudi fails; before that, Hudi is asked to purge the instant so that it is no longer pending.
    """
    from py4j.protocol import Py4JJavaError

    with _client(work, options, f"instant {instant} of") as client:
        try:
            client.cluster(instant, True)
        except Py4JJavaError:
            # Hudi refuses writers while a clustering is pending, so one that failed is purged.
            try:
                client.purgePendingClustering(instant)
            except Py4JJavaError as problem:
                cause = first_line(problem.java_exception.toString())
                work.tell(f"Hudi failed to purge {instant}, and refuses writers until a run ends it: {cause}")
            raise


def _text(union: dict[str, str] | None) -> str:
    """Return the value of an optional string in Avro's JSON, "" for null."""
    return union["string"] if union else ""


def _request(jvm: Any, client: Any, instant: str, plan: Any) -> None:
    """Save the plan as a requested clustering instant, as Hudi's own plan executor does."""
    hudi = jvm.org.apache.hudi
    meta = hudi.table.HoodieSparkTable.create(client.getConfig(), client.getEngineContext()).getMetaClient()
    layouts = hudi.common.table.timeline.versioning.TimelineLayoutVersion
    action = "clustering" if meta.getTimelineLayoutVersion().equals(layouts.LAYOUT_VERSION_2) else "replacecommit"
    state = getattr(hudi.common.table.timeline, "HoodieInstant$State").REQUESTED
    metadata = (
        hudi.avro.model.HoodieRequestedReplaceMetadata.newBuilder()
        .setOperationType(hudi.common.model.WriteOperationType.CLUSTER.name())
        .setExtraMetadata({})
        .setClusteringPlan(plan)
        .build()
    )
    meta.getActiveTimeline().saveToPendingClusterCommit(meta.createNewInstant(state, action, instant), metadata)


def _decoded(work: Compaction, plan: str) -> Any:
    jvm: Any = work.spark._jvm
    avro = jvm.org.apache.avro
    schema = jvm.org.apache.hudi.avro.model.HoodieClusteringPlan.getClassSchema()
    decoder = avro.io.DecoderFactory.get().jsonDecoder(schema, plan)
    return avro.specific.SpecificDatumReader(schema).read(None, decoder)


@contextmanager
def _client(work: Compaction, options: Mapping[str, str], doing: str) -> Iterator[Any]:
    from hudi_vector.writing.client import hudi_client
    from hudi_vector.writing.failures import in_one_sentence

    with (
        in_one_sentence(f"{doing} the clustering of '{work.name}' failed"),
        hudi_client(work.spark, work.path, options) as client,
    ):
        yield client
