"""The native listing equals Hudi's own file-system view, and searches as of an instant Hudi's own as-of read."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from support import jvm_view, layout_histories, layouts, searched

import hudi_vector as hv
from hudi_vector.errors import InstantNotAvailableError
from hudi_vector.table.instants import parse_as_of
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

del layout_histories  # imported for the histories it declares

QUERY = np.array([0.6, -0.3, 1.1, 0.2])
LAST = {case.history: case for case in layouts.CASES}
# Their whole history is read again; the others differ from these in columns, not in files.
SEARCHED = ("cow", "mor", "log_only", "partial", "evolved_mor", "archived_cow", "archived_mor", "duplicates")


@pytest.mark.parametrize("case", layouts.CASES, ids=str)
def test_the_native_listing_is_hudis_view_at_every_instant(spark, shared, case):
    path = layouts.path_of(spark, shared, case.history, case.stage)
    table = NativeTable(Source(jvm_view.source_uri(path), case.history))
    view = jvm_view.View(spark, path)
    instants = view.instants()
    assert [entry.requested for entry in table.timeline().commits] == instants
    if not instants:
        assert table.snapshot().file_slices == ()
        return
    assert jvm_view.listed(table.snapshot()) == view.slices(instants[-1])
    compared = 0
    for instant in instants:
        try:
            snapshot = table.snapshot(parse_as_of(instant, "UTC"))
        except InstantNotAvailableError:
            continue
        assert jvm_view.listed(snapshot) == view.slices(instant), instant
        compared += 1
    assert compared


@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_as_of_an_instant_is_hudis_own_as_of_read(spark, shared, name):
    path = layouts.path_of(spark, shared, name, LAST[name].stage)
    compared = 0
    for instant in jvm_view.View(spark, path).instants():
        expected = _as_hudi_reads(spark, path, instant)
        if expected is None:
            continue
        got = searched.search(spark, path, "emb", QUERY, 7, metric="l2", as_of=instant)
        searched.assert_found(got, expected.nearest(QUERY, 7, "l2", filtered=False))
        compared += 1
    assert compared


@pytest.mark.parametrize("name", ["archived_cow", "archived_mor"])
def test_an_instant_that_was_cleaned_away_is_refused_with_the_oldest_available_one(spark, shared, name):
    path = layouts.path_of(spark, shared, name, "late")
    with pytest.raises((InstantNotAvailableError, AnalysisException, IllegalArgumentException)) as refused:
        hv.search(spark, path, "emb", QUERY, 3, as_of="20200101000000000").collect()
    oldest = re.search(r"oldest available instant is (\d{17})", str(refused.value))[1]
    instants = jvm_view.View(spark, path).instants()
    assert _as_hudi_reads(spark, path, oldest) is not None
    earlier = [instant for instant in instants if instant < oldest]
    assert earlier, "the clean kept everything"
    for instant in earlier:
        assert _as_hudi_reads(spark, path, instant) is None
        with pytest.raises((InstantNotAvailableError, AnalysisException, IllegalArgumentException), match=oldest):
            hv.search(spark, path, "emb", QUERY, 3, as_of=instant).collect()


def _as_hudi_reads(spark, path, instant):
    """The rows of Hudi's own as-of read; None where Hudi refuses it because its clean took files of that time."""
    try:
        frame = spark.read.format("hudi").option("as.of.instant", instant).load(path)
        return searched.Expected(frame, "emb", "true", len(QUERY))
    except Exception as refused:
        if "Cleaner cleaned up" not in str(refused):
            raise
        return None
