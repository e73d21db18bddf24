"""LangChain's vector store over a Hudi table: the standard tests of LangChain, and what they do not ask for."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("langchain_tests")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests
from support.copied_documents import CopiedDocuments
from support.quick import QUICK
from support.tables import fresh_path

import hudi_vector as hv
from hudi_vector.errors import (
    DimensionMismatchError,
    HudiVectorError,
    InvalidArgumentError,
    InvalidFilterError,
    InvalidTypeError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedTableError,
)
from hudi_vector.integrations.langchain import HudiVectorStore

EMBEDDING = DeterministicFakeEmbedding(size=6)
DAY = dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc)
COLUMNS = {"price": "double", "country": "string", "at": "timestamp"}
METADATA = [
    {"price": float(i), "country": "DE" if i % 2 else "FR", "at": DAY + dt.timedelta(days=i), "tags": [i, "t"], "odd": i % 2}
    for i in range(12)
]  # fmt: skip
TEXTS = [f"text {i}" for i in range(12)]
IDS = [f"id{i:02}" for i in range(12)]


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
class TestStandard(VectorStoreIntegrationTests):
    """Every test of the suite, as it is."""

    @pytest.fixture
    def vectorstore(self, spark, workspace, monkeypatch):
        monkeypatch.setattr("hudi_vector.integrations.langchain.DocumentTable", CopiedDocuments)
        return HudiVectorStore(fresh_path(workspace, "store"), self.get_embeddings(), spark=spark, options=QUICK)


def commits(path: Path) -> int:
    return len(list((path / ".hoodie" / "timeline").glob("*_*.commit")))


@pytest.fixture(scope="module")
def table(spark, workspace):
    """Twelve documents in one commit, with metadata in columns and in JSON."""
    path = fresh_path(workspace, "store")
    store = HudiVectorStore(path, EMBEDDING, spark=spark, metadata_columns=COLUMNS, options=QUICK)
    store.add_texts(TEXTS, METADATA, ids=IDS)
    return path


@pytest.fixture
def store(table):
    """A store that only reads, and has no session."""
    return HudiVectorStore(table, EMBEDDING, create=False)


def nearest(query: str, passes=lambda metadata: True) -> list[str]:
    """The ids by cosine distance, by brute force in float64."""
    vectors = np.asarray(EMBEDDING.embed_documents(TEXTS), np.float32).astype(np.float64)
    asked = np.asarray(EMBEDDING.embed_query(query))
    near = vectors @ asked / np.linalg.norm(vectors, axis=1)
    return [IDS[i] for i in np.argsort(-near) if passes(METADATA[i])]


FILTERS = [
    (None, lambda m: True),
    ("price < 5 AND country = 'DE'", lambda m: m["price"] < 5 and m["country"] == "DE"),
    ({"price": {"$lt": 5}, "country": "DE"}, lambda m: m["price"] < 5 and m["country"] == "DE"),
    ({"at": {"$gte": DAY + dt.timedelta(days=7)}}, lambda m: m["price"] >= 7),
    ({"odd": 1}, lambda m: m["odd"] == 1),
    ({"odd": 1, "price": {"$gt": 5}}, lambda m: m["odd"] == 1 and m["price"] > 5),
    ({"$or": [{"odd": 0}, {"country": {"$in": ["DE"]}}]}, lambda m: True),
    ({"$not": {"tags": [3, "t"]}}, lambda m: m["tags"] != [3, "t"]),
    ({"unknown": {"$exists": True}}, lambda m: False),
]


@pytest.mark.parametrize(("condition", "passes"), FILTERS, ids=[str(one) for one, _ in FILTERS])
def test_a_filter_chooses_the_documents_that_are_searched(store, condition, passes):
    found = store.similarity_search("text 3", k=4, filter=condition)
    assert [each.id for each in found] == nearest("text 3", passes)[:4]
    assert all(each.metadata == METADATA[IDS.index(each.id)] for each in found)


def test_searches_start_no_job(store, spark):
    jobs = spark._jsc.sc().dagScheduler().numTotalJobs
    before = jobs()
    store.similarity_search("text 3", filter={"odd": 1})
    store.get_by_ids(IDS)
    assert jobs() == before
    spark.range(1).collect()
    assert jobs() > before  # as a job of Spark is counted
    assert hv.last_reports(1)[0].k == 4


def test_a_search_returns_groups_by_a_column(store):
    found = store.similarity_search("text 3", k=2, group_by="country")
    wanted = {nearest("text 3", lambda m, of=country: m["country"] == of)[0] for country in ("DE", "FR")}
    assert {each.id for each in found} == wanted


def test_a_receipt_has_the_whole_condition_over_json_too(store):
    store.similarity_search("text 3", filter={"odd": 1, "price": {"$lt": 4}})
    receipt = hv.last_reports(1)[0].receipt()
    assert "id IN ('id01', 'id03')" in receipt.to_json()
    assert hv.replay(None, receipt).same


def test_scores_are_distances_and_relevance_is_cosine(store):
    (first, distance), *_ = store.similarity_search_with_score("text 3")
    assert (first.page_content, distance) == ("text 3", pytest.approx(0, abs=1e-6))
    scored = store.similarity_search_with_relevance_scores("text 3", k=3)
    assert [each.id for each, _ in scored] == nearest("text 3")[:3]
    assert scored[0][1] == pytest.approx(1)
    vector = EMBEDDING.embed_query("text 3")
    assert [each.id for each in store.similarity_search_by_vector(vector, 3)] == nearest("text 3")[:3]


def test_marginal_relevance_of_one_is_nearness(store):
    found = store.max_marginal_relevance_search("text 3", k=3, fetch_k=12, lambda_mult=1.0)
    assert [each.id for each in found] == nearest("text 3")[:3]
    unlike = store.max_marginal_relevance_search("text 3", k=3, fetch_k=12, lambda_mult=0.0, filter={"odd": 1})
    assert unlike[0].id == nearest("text 3")[0]
    assert all(each.metadata["odd"] for each in unlike)


def test_a_retriever_passes_arguments_on(store):
    retriever = store.as_retriever(search_kwargs={"k": 2, "filter": "country = 'FR'"})
    assert [each.id for each in retriever.invoke("text 3")] == nearest("text 3", lambda m: m["country"] == "FR")[:2]


def test_one_call_is_one_commit_and_the_past_can_be_searched(spark, workspace):
    path = fresh_path(workspace, "store")
    store = HudiVectorStore.from_texts(TEXTS[:2], EMBEDDING, ids=IDS[:2], table=path, spark=spark, options=QUICK)
    assert commits(path) == 1
    then = dt.datetime.now(dt.timezone.utc)
    time.sleep(0.01)
    store.add_documents([Document(id=IDS[0], page_content="new"), Document(page_content="other")])
    assert commits(path) == 2
    store.delete([IDS[1], "unknown"])
    store.delete(["unknown"])
    store.add_documents([])
    assert commits(path) == 3
    assert {each.page_content for each in store.similarity_search("new", k=9)} == {"new", "other"}
    assert {each.page_content for each in store.similarity_search("new", k=9, as_of=then)} == set(TEXTS[:2])
    store.delete()
    assert store.similarity_search("new") == []
    store.add_texts(["again"], ids=["again"])
    assert [each.id for each in store.similarity_search("new")] == ["again"]


def test_commits_of_another_store_are_seen_when_it_is_time(spark, workspace):
    path = fresh_path(workspace, "store")
    writer = HudiVectorStore.from_texts(["a"], EMBEDDING, ids=["a"], table=path, spark=spark, options=QUICK)
    late, at_once = (HudiVectorStore(path, EMBEDDING, refresh_every=every) for every in (1000, 0))
    writer.add_texts(["b"], ids=["b"])
    assert [len(store.similarity_search("a")) for store in (writer, late, at_once)] == [2, 1, 2]


@pytest.mark.anyio
async def test_async_writes_take_turns_and_searches_go_on(spark, workspace):
    path = fresh_path(workspace, "store")
    stores = [HudiVectorStore(path, EMBEDDING, spark=spark, options=QUICK) for _ in range(2)]
    await stores[0].aadd_texts(["first"], ids=["first"])
    searches = [stores[0].asimilarity_search("first", k=1) for _ in range(6)]
    written = [store.aadd_texts([name], ids=[name]) for store, name in zip(stores, "ab", strict=True)]
    *found, _, _ = await asyncio.gather(*searches, *written)
    assert [[each.id for each in one] for one in found] == [["first"]] * 6
    reader = HudiVectorStore(path, EMBEDDING)
    with ThreadPoolExecutor(4) as threads:
        ids = list(threads.map(lambda _: {each.id for each in reader.similarity_search("a")}, range(8)))
    assert ids == [{"first", "a", "b"}] * 8


def test_a_table_of_log_files_with_other_names_is_a_store_too(spark, workspace):
    path = fresh_path(workspace, "store")
    rows = [("k1", "one", 1, [1.0, 0.0]), ("k2", "two", 2, None), ("k3", "three", 3, [0.6, 0.8])]
    frame = spark.createDataFrame(rows, "doc STRING, body STRING, page INT, emb ARRAY<FLOAT>")
    arguments = {"record_key": "doc", "vectors": {"emb": 2}, "table_type": "mor", "options": QUICK}
    hv.write(frame, path, **arguments)
    names = {"id_column": "doc", "text_column": "body", "vector_column": "emb"}
    store = HudiVectorStore(path, DeterministicFakeEmbedding(size=2), spark=spark, options=QUICK, **names)
    store.add_texts(["three again"], [{"page": 30}], ids=["k3"])
    store.delete(["k1"])
    assert list(path.glob(".*log*"))
    assert [(each.id, each.metadata) for each in store.get_by_ids(["k3", "k2", "k1"])] == [
        ("k3", {"page": 30}), ("k2", {"page": 2}),
    ]  # fmt: skip
    assert [each.id for each in store.similarity_search_by_vector([1.0, 0.0], filter={"page": {"$gt": 2}})] == ["k3"]
    with pytest.raises(
        InvalidArgumentError, match=r"has no column for metadata 'tag' of document 'k4', and none for JSON"
    ):
        store.add_texts(["four"], [{"tag": 1}], ids=["k4"])


class Shorter(DeterministicFakeEmbedding):
    """Vectors of another length."""


WRONG = [
    (lambda s: s.add_texts(["a"], ids=["a"]), DimensionMismatchError,
     r"the vector of document 'a' has 3 elements, and others of '.+' have 6; embed all documents with one model"),
    (lambda s: s.similarity_search("a"), DimensionMismatchError,
     r"the query vector has 3 elements, the column has 6; give 6"),
    (lambda s: s.add_texts(["a", "b"], ids=["x", "x"]), InvalidArgumentError,
     r"id 'x' is given twice; give each document of a call its own id"),
    (lambda s: s.add_texts(["a"], ids=[" "]), InvalidTypeError,
     r"an id must be a text that is not blank, not ' '"),
    (lambda s: s.add_texts(["a"], [{"m": {1, 2}}], ids=["a"]), InvalidTypeError,
     r"metadata 'm' of document 'a' is set, which JSON does not give back as it was; give text, finite numbers, .+"),
    (lambda s: s.add_texts(["a"], [{"m": float("nan")}], ids=["a"]), InvalidTypeError,
     r"metadata 'm' of document 'a' is float, which JSON does not give back .+"),
    (lambda s: s.add_texts(["a"], [{"price": "dear"}], ids=["a"]), InvalidTypeError,
     r"metadata 'price' of document 'a' is 'dear', and column 'price' is double; give a value of that type"),
    (lambda s: s.add_texts(["a"], [{}, {}]), InvalidArgumentError,
     r"metadatas has 2 values for 1 text; give one for each"),
    (lambda s: s.add_texts(["a"], namespace="n"), InvalidTypeError,
     r"add_texts has no argument 'namespace'; its arguments are ids, metadatas, texts"),
    (lambda s: s.similarity_search("a", filter={"price": {"$near": 3}}), InvalidFilterError,
     r"the filter has for 'price' the unknown operator '\$near'; the operators are \$eq, \$ne, .+"),
    (lambda s: s.similarity_search("a", filter={"price": "dear"}), InvalidFilterError,
     r"the filter compares 'price', a column of type double, with 'dear'; give a value of that type"),
    (lambda s: s.similarity_search("a", filter=3), InvalidFilterError,
     r"a filter is text such as .+, or a dictionary such as .+, not int"),
    (lambda s: s.similarity_search("a", filters={}), InvalidTypeError,
     r"similarity_search has no argument 'filters'; did you mean 'filter'\?"),
    (lambda s: s.similarity_search("a", k=0), InvalidArgumentError,
     r"k must be a whole number from 1 to 100000, not 0"),
    (lambda s: s.get_by_ids("id01"), InvalidTypeError,
     r"ids must be a list of texts, not str"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "kind", "sentence"), WRONG)
def test_wrong_input_is_answered_by_one_sentence(table, spark, act, kind, sentence):
    size = 3 if kind is DimensionMismatchError else 6
    store = HudiVectorStore(table, DeterministicFakeEmbedding(size=size), spark=spark, options=QUICK)
    before = commits(table)
    with pytest.raises(HudiVectorError) as raised:
        act(store)
    assert type(raised.value) is kind
    assert re.fullmatch(sentence, str(raised.value)), str(raised.value)
    assert commits(table) == before


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"create": False}, TableNotFoundError, r"there is no Hudi table at '.+'; give its path, or create=True"),
        ({"metadata_columns": {"p": "money"}}, InvalidArgumentError,
         r"metadata_columns\['p'\] = 'money'; give one of string, int, bigint, double, boolean, date, timestamp"),
        ({"element": "half"}, InvalidArgumentError, r"element must be one of float, double, int8, not 'half'"),
        ({"id_column": ""}, InvalidTypeError, r"the argument 'id_column' is blank; give a text"),
    ],
)  # fmt: skip
def test_wrong_arguments_of_a_store_are_answered_by_one_sentence(workspace, arguments, kind, sentence):
    with pytest.raises(kind) as raised:
        HudiVectorStore(fresh_path(workspace, "none"), EMBEDDING, **arguments)
    assert re.fullmatch(sentence, str(raised.value)), str(raised.value)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"page": "int"}, r"'.+' has no column 'page' for metadata; leave it out of metadata_columns, or add it: .+"),
        ({"price": "int"}, r"column 'price' of '.+' is double, and metadata_columns says int32; leave it out .+"),
    ],
)
def test_columns_that_the_table_has_otherwise_are_refused(table, columns, sentence):
    with pytest.raises(InvalidArgumentError) as raised:
        HudiVectorStore(table, EMBEDDING, metadata_columns=columns)
    assert re.fullmatch(sentence, str(raised.value)), str(raised.value)


def test_columns_of_other_names_and_contents_are_said(table):
    with pytest.raises(UnknownColumnError, match=r"^column 'body' does not exist in '.+'; .+"):
        HudiVectorStore(table, EMBEDDING, text_column="body")
    with pytest.raises(
        InvalidArgumentError, match=r"^column 'price' of '.+' is double; ids and texts must be strings$"
    ):
        HudiVectorStore(table, EMBEDDING, id_column="price")
    store = HudiVectorStore(table, EMBEDDING, metadata_column="country")
    with pytest.raises(
        UnsupportedTableError, match=r"column 'country' of '.+' holds 'DE', which is no JSON object; give .+"
    ):
        store.get_by_ids(["id01"])


def test_a_metric_without_relevance_says_so(table):
    store = HudiVectorStore(table, EMBEDDING, metric="dot_product")
    with pytest.raises(InvalidArgumentError, match=r"distances by dot_product have no relevance from 0 to 1; use .+"):
        store.similarity_search_with_relevance_scores("a")
