"""Haystack's document store over a Hudi table: the standard tests of Haystack, and what they do not ask for."""

from __future__ import annotations

import datetime as dt
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.testing import document_store as standard
from haystack.utils.filters import document_matches_filter
from support.copied_documents import CopiedDocuments
from support.quick import QUICK
from support.tables import fresh_path

from hudi_vector.errors import DimensionMismatchError, HudiVectorError, InvalidArgumentError, InvalidTypeError
from hudi_vector.integrations.haystack import HudiDocumentStore, HudiEmbeddingRetriever

FILTERABLE = standard.create_filterable_docs()


class TestStandard(standard.DocumentStoreBaseExtendedTests, standard.CountDocumentsByFilterTest):
    """Every test of the suites, as it is."""

    @staticmethod
    def assert_documents_are_equal(received, expected):
        """The store returns documents in the order of their ids, which the protocol leaves open."""
        assert received == sorted(expected, key=lambda document: document.id)

    def test_write_documents(self, document_store):
        """The suite wants each store to say what it does without a policy: this one refuses ids that are there."""
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])
        assert document_store.filter_documents() == [document]

    @pytest.fixture
    def filterable_docs(self):
        """The same documents in each test; the suite makes new vectors for each."""
        return list(FILTERABLE)

    @pytest.fixture
    def document_store(self, spark, workspace, monkeypatch):
        monkeypatch.setattr("hudi_vector.integrations.haystack.DocumentTable", CopiedDocuments)
        return HudiDocumentStore(
            fresh_path(workspace, "store"), spark=spark, dimension=768, element="double", options=QUICK
        )


DAY = dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc)
VECTORS = np.random.default_rng(5).standard_normal((12, 4))
DOCUMENTS = [
    Document(
        id=f"id{i:02}", content=None if i == 7 else f"text {i}", embedding=None if i == 3 else VECTORS[i].tolist(),
        meta={"price": float(i), "country": "DE" if i % 2 else "FR", "at": DAY + dt.timedelta(days=i), "tags": [i], "odd": i % 2},
    )
    for i in range(12)
]  # fmt: skip
COLUMNS = {"price": "double", "country": "string", "at": "timestamp"}


@pytest.fixture(scope="module")
def store(spark, workspace):
    """Twelve documents in one commit, with metadata in columns and in JSON."""
    path = fresh_path(workspace, "store")
    store = HudiDocumentStore(path, spark=spark, metadata_columns=COLUMNS, element="double", options=QUICK)
    assert store.write_documents(DOCUMENTS) == 12
    return store


def compared(field, operator, value):
    return {"field": field, "operator": operator, "value": value}


FILTERS = [
    compared("meta.price", "<", 5),
    compared("meta.country", "!=", "DE"),
    compared("meta.at", ">=", "2026-02-07T12:00:00"),
    compared("meta.odd", "==", 1),
    compared("meta.tags", "in", [[3], [4]]),
    compared("content", "==", None),
    {"operator": "AND", "conditions": [compared("meta.price", ">", 2), compared("meta.odd", "!=", 0)]},
    {"operator": "NOT", "conditions": [compared("meta.country", "==", "FR"), compared("id", "in", ["id04"])]},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_columns_and_json_pass_what_haystack_passes(store, filters):
    wanted = [document for document in DOCUMENTS if document_matches_filter(filters, document)]
    assert 0 < len(wanted) < 12
    assert store.filter_documents(filters) == wanted
    assert store.count_documents_by_filter(filters) == len(wanted)
    query = VECTORS[2]
    near = VECTORS @ query / np.linalg.norm(VECTORS, axis=1) / np.linalg.norm(query)
    ids = [DOCUMENTS[i].id for i in np.argsort(-near) if DOCUMENTS[i] in wanted and i != 3]
    found = store.embedding_retrieval(query.tolist(), filters, top_k=3)
    assert [each.id for each in found] == ids[:3]
    assert [each.score for each in found] == pytest.approx(sorted(near[[int(one[2:]) for one in ids]])[::-1][:3])


def test_a_retriever_of_a_pipeline_comes_back_from_its_text(store):
    retriever = HudiEmbeddingRetriever(store, filters=compared("meta.odd", "==", 0), top_k=2, filter_policy="merge")
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    text = pipeline.dumps()
    asked = {"retriever": {"query_embedding": VECTORS[2].tolist(), "filters": compared("meta.price", ">", 1)}}
    first = pipeline.run(asked)["retriever"]["documents"]
    assert first[0].id == "id02"
    assert all(each.meta["odd"] == 0 and each.meta["price"] > 1 for each in first)
    again = Pipeline.loads(text, allowed_modules=["hudi_vector.integrations.haystack"])
    assert again.run(asked)["retriever"]["documents"] == first


def test_policies_say_what_becomes_of_ids_given_twice(spark, workspace):
    store = HudiDocumentStore(fresh_path(workspace, "store"), spark=spark, dimension=2, options=QUICK)
    one, other = Document(id="1", content="one"), Document(id="1", content="other")
    with pytest.raises(DuplicateDocumentError, match=r"^id '1' is given twice; use SKIP or OVERWRITE$"):
        store.write_documents([one, other])
    assert store.count_documents() == 0
    assert store.write_documents([one, other], DuplicatePolicy.SKIP) == 1
    then = dt.datetime.now(dt.timezone.utc)
    assert store.filter_documents()[0].content == "one"
    assert store.write_documents([one, other], DuplicatePolicy.OVERWRITE) == 2
    assert store.filter_documents()[0].content == "other"
    assert store.filter_documents(as_of=then)[0].content == "one"


def test_threads_take_turns_in_what_they_read_and_write(spark, workspace):
    store = HudiDocumentStore(fresh_path(workspace, "store"), spark=spark, dimension=2, options=QUICK)

    def outcome(work):
        try:
            return work()
        except DuplicateDocumentError:
            return "there already"

    with ThreadPoolExecutor(2) as threads:
        written = [partial(store.write_documents, [Document(id="1", content=str(n))]) for n in range(2)]
        assert sorted(map(str, threads.map(outcome, written))) == ["1", "there already"]
        changed = [partial(store.update_by_filter, compared("id", "==", "1"), {name: 1}) for name in "ab"]
        assert list(threads.map(outcome, changed)) == [1, 1]
    assert store.filter_documents()[0].meta == {"a": 1, "b": 1}


CHEAP = {"field": "meta.price", "operator": "<", "value": 0}
WRONG = [
    (lambda s: s.write_documents([Document(id="a", embedding=[1.0])]), DimensionMismatchError,
     r"the vector of document 'a' has 1 element, and others of '.+' have 4; embed all documents with one model"),
    (lambda s: s.write_documents([Document(id="a", blob=ByteStream(b"x"))]), InvalidArgumentError,
     r"document 'a' has a blob, for which the table has no column; leave it out, .+"),
    (lambda s: s.write_documents([Document(id="a", meta={"m": {1}})]), InvalidTypeError,
     r"metadata 'm' of document 'a' is set, which JSON does not give back as it was; .+"),
    (lambda s: s.write_documents("text"), InvalidArgumentError,
     r"documents must be a list of Haystack's documents, not str"),
    (lambda s: s.delete_documents("id01"), InvalidTypeError, r"ids must be a list of texts, not str"),
    (lambda s: s.delete_by_filter({}), InvalidArgumentError,
     r"delete_by_filter needs a filter whose every part compares a field, not \{\}; delete_all_documents deletes all"),
    (lambda s: s.delete_by_filter({"operator": "OR", "conditions": [{"operator": "AND", "conditions": []}, CHEAP]}),
     InvalidArgumentError, r"delete_by_filter needs a filter whose every part compares a field, not \{'operator': .+"),
    (lambda s: s.update_by_filter({}, {"a": 1}), InvalidArgumentError,
     r"update_by_filter needs a filter whose every part compares a field, not \{\}; all documents pass \{'field': 'id', .+\}"),
    (lambda s: s.embedding_retrieval([1.0]), DimensionMismatchError,
     r"the query vector has 1 element, the column has 4; give 4"),
    (lambda s: HudiEmbeddingRetriever(3), InvalidTypeError, r"document_store must be a HudiDocumentStore, not int"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "kind", "sentence"), WRONG)
def test_wrong_input_is_answered_by_one_sentence(store, act, kind, sentence):
    with pytest.raises(HudiVectorError) as raised:
        act(store)
    assert type(raised.value) is kind
    assert re.fullmatch(sentence, str(raised.value)), str(raised.value)
    assert store.count_documents() == 12


def test_the_length_of_vectors_must_be_known(spark, workspace):
    store = HudiDocumentStore(fresh_path(workspace, "store"), spark=spark)
    with pytest.raises(InvalidArgumentError, match=r"^no document has a vector, so that the length .+ give dimension$"):
        store.write_documents([Document(content="a")])
