"""Tables that older Hudi releases wrote, as they were written: see tests/fixtures/make_tables.py."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support import jvm_view, searched
from support.archives import OF_RELEASES, unpack

import hudi_vector as hv
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

QUERY = np.array([3.3, 0.4, 1.1, -2.0])


@pytest.fixture(scope="module", params=OF_RELEASES, ids=lambda archive: archive.name.removesuffix(".tar.gz"))
def table(request, workspace):
    folder = workspace / "versions" / request.param.name.removesuffix(".tar.gz")
    unpack(request.param, folder)
    return str(folder / "table")


def test_the_search_equals_what_hudi_1_2_reads(spark, table):
    expected = searched.Expected(spark.read.format("hudi").load(table), "emb", "price < 100", 4)
    assert len(expected) == 14
    for execution, metric, filtered in (("local", "l2", True), ("distributed", "cosine", False)):
        text = "price < 100" if filtered else None
        got = searched.search(spark, table, "emb", QUERY, 20, metric=metric, filter=text, execution=execution)
        searched.assert_found(got, expected.nearest(QUERY, 20, metric, filtered))


def test_the_fixture_is_of_the_version_it_says_and_stays_so(spark, table):
    said = re.search(r"_v(\d+)_(cow|mor)", table)
    found = NativeTable(Source(jvm_view.source_uri(table), "old"))
    assert found.config.version == int(said[1])
    has_logs = any(entry.log_files for entry in found.snapshot().file_slices)
    assert has_logs == (said[2] == "mor")
    text = hv.explain(hv.search, spark, table, "emb", QUERY)
    assert bool(re.search(r"─ (merged|spark) +\d", text)) == has_logs


def test_the_native_listing_is_hudis_view_at_every_instant(spark, table):
    found, view = NativeTable(Source(jvm_view.source_uri(table), "old")), jvm_view.View(spark, table)
    instants = view.instants()
    assert len(instants) == 4
    assert [entry.requested for entry in found.timeline().commits] == instants
    assert jvm_view.listed(found.snapshot()) == view.slices(instants[-1])


def test_a_search_as_of_an_instant_is_hudis_own_as_of_read(spark, table):
    for instant in jvm_view.View(spark, table).instants()[1:3]:
        frame = spark.read.format("hudi").option("as.of.instant", instant).load(table)
        expected = searched.Expected(frame, "emb", "true", 4)
        got = searched.search(spark, table, "emb", QUERY, 5, metric="l2", as_of=instant)
        searched.assert_found(got, expected.nearest(QUERY, 5, "l2", filtered=False))
