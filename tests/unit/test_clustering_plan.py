"""Plans of clusterings on storage, and when they do not hold any more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.blobs.names import new_write_id
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import normalise
from hudi_vector.table_services.plans.clustering import CLUSTER, ClusteringPlan, PlannedGroup, why_changed
from hudi_vector.table_services.plans.clustering_files import (
    ClusteringRun,
    begun_clusterings,
    publish_clustering,
    read_clustering,
)
from hudi_vector.table_services.plans.compaction import KEEP, REPACK, CompactionPlan, PlannedContainer
from hudi_vector.table_services.plans.compaction_files import read_run

GROUPS = (
    PlannedGroup("p/a", 30, CLUSTER, "its rows are put in order", ("a_1.parquet", ".a_2.log.1")),
    PlannedGroup("p/b", 40, KEEP, "Hudi's plan of the clustering leaves it out", ("b_1.parquet",)),
)
FILES = {"p/a": ("a_1.parquet", ".a_2.log.1"), "p/b": ("b_1.parquet",)}


def plan_of(table, groups=GROUPS, vectors=()):
    containers = (PlannedContainer(".hoodie/blobs/x", "p", "img", 9, 8, REPACK, "it is small", 0),)
    compaction = CompactionPlan(new_write_id(1), table, 1, ("img",), containers, 100, 50)
    settings = BlobSettings(inline_threshold=77, format="lance")
    return ClusteringPlan(
        new_write_id(2), table, 2, ("rank", *vectors), vectors, groups, ("3",), settings, 4, 5, compaction, "{}"
    )


def test_a_plan_is_read_as_it_was_made(tmp_path):
    table = normalise(str(tmp_path))
    made = publish_clustering(ClusteringRun(plan_of(table)))
    assert read_clustering(table, made.plan.plan_id) == made
    assert begun_clusterings(table) == []
    begun = publish_clustering(replace(made, state="running", instants=("20260101000000000",)))
    assert begun_clusterings(table) == [begun]
    publish_clustering(replace(begun, state="ended"))
    assert begun_clusterings(table) == []
    assert read_clustering(table, made.plan.plan_id).plan == made.plan


@pytest.mark.parametrize("plan_id", ["x", "../uploads", "20260101000000000_0123456789ab", 7])
def test_there_is_no_such_plan(tmp_path, plan_id):
    with pytest.raises(InvalidArgumentError, match=r"has no clustering plan '.*'; a dry run publishes one"):
        read_clustering(str(tmp_path), plan_id)
    with pytest.raises(InvalidArgumentError, match=r"has no compaction plan '.*'; a dry run publishes one"):
        read_run(str(tmp_path), plan_id)


@given(
    st.dictionaries(st.sampled_from(["p/a", "p/b", "p/c"]), st.sampled_from([*FILES.values(), ()])),
    st.frozensets(st.sampled_from(["3", "4"])),
    st.booleans(),
)
def test_a_plan_holds_while_what_it_puts_in_order_is_as_it_was(files, pending, by_vectors):
    plan = plan_of("file:///t", vectors=("vec",) if by_vectors else ())
    found = why_changed(plan, files, pending)
    same = files.get("p/a") == FILES["p/a"] and "4" not in pending
    assert (found is None) == (same and not (by_vectors and "p/c" in files))
    assert (
        found is None
        or f"since plan '{plan.plan_id}' was made; run it without a plan, or make another by a dry run" in found
    )


def test_a_plan_that_puts_nothing_in_order_holds():
    assert why_changed(plan_of("file:///t", GROUPS[1:]), {}, frozenset({"4"})) is None
