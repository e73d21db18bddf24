"""LlamaIndex's vector store over a Hudi table, next to LlamaIndex's own store in memory."""

from __future__ import annotations

import asyncio
import datetime as dt
import re

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from support.quick import QUICK
from support.tables import fresh_path

from hudi_vector.errors import DimensionMismatchError, HudiVectorError, InvalidArgumentError
from hudi_vector.integrations.llama_index import HudiVectorStore

VECTORS = np.random.default_rng(5).standard_normal((12, 4))


def nodes():
    """Twelve nodes of three documents."""
    return [
        TextNode(
            id_=f"n{i:02}", text=f"text {i}", embedding=VECTORS[i].tolist(),
            metadata={"price": float(i), "country": "DE" if i % 2 else "FR", "tags": ["a", f"t{i % 3}"], "odd": i % 2},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"d{i % 3}")},
        )
        for i in range(12)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def store(spark, workspace):
    columns = {"price": "double", "country": "string"}
    store = HudiVectorStore(fresh_path(workspace, "store"), spark=spark, metadata_columns=columns, element="double", options=QUICK)  # fmt: skip
    assert store.add(nodes()) == [node.node_id for node in nodes()]
    return store


@pytest.fixture(scope="module")
def oracle():
    store = SimpleVectorStore()
    store.add(nodes())
    return store


def one(key, value, operator=FilterOperator.EQ):
    return MetadataFilter(key=key, value=value, operator=operator)


FILTERS = [
    None,
    MetadataFilters(filters=[one("price", 5, FilterOperator.LT)]),
    MetadataFilters(filters=[one("price", 3.0, FilterOperator.GTE), one("odd", 1)]),
    MetadataFilters(filters=[one("country", "DE", FilterOperator.NE), one("odd", 1)], condition=FilterCondition.OR),
    MetadataFilters(filters=[one("country", "DE"), one("price", 4, FilterOperator.GT)], condition=FilterCondition.NOT),
    MetadataFilters(filters=[one("tags", "t1", FilterOperator.CONTAINS)]),
    MetadataFilters(filters=[one("country", ["DE", "AT"], FilterOperator.IN), one("odd", [0], FilterOperator.NIN)]),
    MetadataFilters(filters=[one("unknown", None, FilterOperator.IS_EMPTY)]),
]


@pytest.mark.parametrize("filters", FILTERS, ids=lambda each: str(each)[:60])
@pytest.mark.parametrize("ids", [{}, {"doc_ids": ["d1", "d2"]}, {"node_ids": ["n01", "n02", "n05", "n06"]}], ids=str)
def test_a_query_finds_what_the_store_in_memory_finds(store, oracle, filters, ids):
    query = VectorStoreQuery(query_embedding=VECTORS[2].tolist(), similarity_top_k=3, filters=filters, **ids)
    found = store.query(query)
    if query.doc_ids is not None:  # which that store does not look at
        query.node_ids = [node.node_id for node in nodes() if node.ref_doc_id in query.doc_ids]
    wanted = oracle.query(query)
    assert found.ids == wanted.ids
    assert found.similarities == pytest.approx(wanted.similarities)
    by_id = {node.node_id: node for node in nodes()}
    for node in found.nodes:
        assert (node.text, node.metadata, node.ref_doc_id) == (
            by_id[node.node_id].text, by_id[node.node_id].metadata, by_id[node.node_id].ref_doc_id,
        )  # fmt: skip


def test_filters_within_filters(store):
    inner = MetadataFilters(filters=[one("odd", 1), one("price", 8, FilterOperator.GT)], condition=FilterCondition.OR)
    found = store.get_nodes(filters=MetadataFilters(filters=[inner, one("country", "DE")]))
    assert [node.node_id for node in found] == [f"n{i:02}" for i in range(12) if i % 2]
    assert found[0].embedding == VECTORS[1].tolist()


def test_nodes_go_by_document_by_id_and_all(spark, workspace):
    store = HudiVectorStore(fresh_path(workspace, "store"), spark=spark, options=QUICK)
    asyncio.run(store.async_add(nodes()))
    then = dt.datetime.now(dt.timezone.utc)
    store.delete("d1")
    store.delete_nodes(["n00"])
    assert [node.node_id for node in store.get_nodes()] == [f"n{i:02}" for i in range(1, 12) if i % 3 != 1]
    query = VectorStoreQuery(query_embedding=VECTORS[1].tolist(), similarity_top_k=1)
    assert asyncio.run(store.aquery(query, as_of=then)).ids == ["n01"]
    store.clear()
    assert store.query(query).ids == []


WRONG = [
    (lambda s: s.query(VectorStoreQuery(query_embedding=[1.0] * 4, mode=VectorStoreQueryMode.MMR)), InvalidArgumentError,
     r"the mode of a query must be 'default', not 'mmr'"),
    (lambda s: s.delete_nodes(), InvalidArgumentError,
     r"delete_nodes needs node_ids, or filters without an empty part; use clear to delete all nodes"),
    (lambda s: s.delete_nodes(filters=MetadataFilters(filters=[MetadataFilters(filters=[])])), InvalidArgumentError,
     r"delete_nodes needs node_ids, or filters without an empty part; use clear to delete all nodes"),
    (lambda s: s.add([TextNode(id_="a", embedding=[1.0])]), DimensionMismatchError,
     r"the vector of document 'a' has 1 element, and others of '.+' have 4; embed all documents with one model"),
    (lambda s: s.query(VectorStoreQuery(query_embedding=[1.0])), DimensionMismatchError,
     r"the query vector has 1 element, the column has 4; give 4"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "kind", "sentence"), WRONG)
def test_wrong_input_is_answered_by_one_sentence(store, act, kind, sentence):
    with pytest.raises(HudiVectorError) as raised:
        act(store)
    assert type(raised.value) is kind
    assert re.fullmatch(sentence, str(raised.value)), str(raised.value)
