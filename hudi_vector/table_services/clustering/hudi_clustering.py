"""Hudi's own clustering: its plan is made first, reviewed, and later scheduled and executed unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import first_line
from hudi_vector.spark.catalyst.handles import handles_of

if TYPE_CHECKING:
    from hudi_vector.table_services.compaction.run import Compaction

__all__ = ["end_with_hudi", "inputs_of", "plan_of_hudi", "run_with_hudi"]

_CLUSTER = "org.apache.hudi.table.action.cluster"
_OPTION = "org.apache.hudi.common.util.Option"
_TABLE = "org.apache.hudi.table.HoodieSparkTable"
_TIMELINE = "org.apache.hudi.common.table.timeline"
_SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"

Place = tuple[str, str]
"""The partition path and the id of a file group."""


def plan_of_hudi(work: Compaction, order: Sequence[str], options: Mapping[str, str], partitions: Sequence[str]) -> str:
    """Return what Hudi would cluster, as a ``HoodieClusteringPlan`` in Avro's JSON, or "" if nothing; schedule nothing.

    `order` has the columns to sort by, `options` Hudi's settings, and `partitions` the paths of the table's partitions.
    Raise WriteError if Hudi fails.
    """
    settings = {**options, **({_SORT_COLUMNS: ",".join(order)} if order else {})}
    named = handles_of(work.spark).named
    with _client(work, settings, "planning") as client:
        config, context = client.getConfig(), client.getEngineContext()
        table = named(_TABLE).create(config, context)
        strategies = named(f"{_CLUSTER}.strategy.ClusteringPlanStrategy")
        planner = named(strategies.checkAndGetClusteringPlanStrategy(config))(table, context, config)
        if not planner.checkPrecondition():
            return ""
        nothing, instant = named(_OPTION).empty(), client.createNewInstantTime(False)
        executor = named(f"{_CLUSTER}.ClusteringPlanActionExecutor")(context, config, table, instant, nothing)
        every = named("org.apache.hudi.util.Lazy").eagerly(list(partitions))
        plan = planner.generateClusteringPlan(executor, every)
        made = plan.isPresent() and not plan.get().getInputGroups().isEmpty()
        return str(named("org.apache.hudi.avro.HoodieAvroUtils").avroToJsonString(plan.get(), False)) if made else ""


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
    decoded = _decoded(work, plan)
    with _client(work, options, "scheduling") as client:
        nothing, turns = handles_of(work.spark).named(_OPTION).empty(), client.getTransactionManager()
        turns.beginStateChange(nothing, nothing)
        try:
            check()
            instant: str = client.createNewInstantTime(False)
            begun(instant)
            _request(work, client, instant, decoded)
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


def _request(work: Compaction, client: Any, instant: str, plan: Any) -> None:
    """Save the plan as a requested clustering instant, as Hudi's own plan executor does."""
    named = handles_of(work.spark).named
    meta = named(_TABLE).create(client.getConfig(), client.getEngineContext()).getMetaClient()
    layouts = named(f"{_TIMELINE}.versioning.TimelineLayoutVersion")
    action = "clustering" if meta.getTimelineLayoutVersion().equals(layouts.LAYOUT_VERSION_2) else "replacecommit"
    state = named(f"{_TIMELINE}.HoodieInstant$State").REQUESTED
    metadata = (
        named("org.apache.hudi.avro.model.HoodieRequestedReplaceMetadata")
        .newBuilder()
        .setOperationType(named("org.apache.hudi.common.model.WriteOperationType").CLUSTER.name())
        .setExtraMetadata({})
        .setClusteringPlan(plan)
        .build()
    )
    meta.getActiveTimeline().saveToPendingClusterCommit(meta.createNewInstant(state, action, instant), metadata)


def _decoded(work: Compaction, plan: str) -> Any:
    named = handles_of(work.spark).named
    schema = named("org.apache.hudi.avro.model.HoodieClusteringPlan").getClassSchema()
    decoder = named("org.apache.avro.io.DecoderFactory").get().jsonDecoder(schema, plan)
    return named("org.apache.avro.specific.SpecificDatumReader")(schema).read(None, decoder)


@contextmanager
def _client(work: Compaction, options: Mapping[str, str], doing: str) -> Iterator[Any]:
    from hudi_vector.writing.client import hudi_client
    from hudi_vector.writing.failures import in_one_sentence

    with (
        in_one_sentence(f"{doing} the clustering of '{work.name}' failed"),
        hudi_client(work.spark, work.path, options) as client,
    ):
        yield client
