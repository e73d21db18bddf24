"""The stores of other libraries before anything is written: what they refuse, each by one sentence."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.errors import (
    HudiVectorError,
    InvalidArgumentError,
    InvalidFilterError,
    InvalidTypeError,
    UnsupportedTableError,
)
from hudi_vector.integrations.conditions import MetadataFilter, matches
from hudi_vector.integrations.documents import DocumentTable, Stored
from hudi_vector.read.predicate.form import evaluate, parse


def refused(kind: type[HudiVectorError], call: Any) -> str:
    """Return the sentence by which a call is refused."""
    with pytest.raises(kind) as raised:
        call()
    return str(raised.value)


def test_haystack_deletes_by_a_list_of_ids_alone(tmp_path: Path) -> None:
    haystack = pytest.importorskip("hudi_vector.integrations.haystack", exc_type=ImportError)
    store = haystack.HudiDocumentStore(str(tmp_path / "t"))
    for given, sentence in (
        (None, "document_ids must be a list of ids, not None; delete_all_documents deletes all"),
        ("a", "ids must be a list of texts, not str"),
        (3, "ids must be a list of texts, not int"),
    ):
        assert refused(InvalidTypeError, lambda: store.delete_documents(given)) == sentence  # noqa: B023 - called here


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metadata_columns": {"id": "string"}}, "metadata_columns has the name 'id', which id_column has too, .+"),
        (
            {"metadata_columns": {"Text": "string"}},
            "metadata_columns has the name 'Text', which text_column has too, .+",
        ),
        (
            {"metadata_columns": {"a": "int", "A": "int"}},
            ".+ has the name 'A', which metadata_columns has too, and case .+",
        ),
        (
            {"metadata_columns": {"metadata": "int"}},
            "metadata_column has the name 'metadata', which metadata_columns has .+",
        ),
        (
            {"text_column": "embedding"},
            "vector_column has the name 'embedding', which text_column .+",
        ),
        ({"metadata_column": "ID"}, "metadata_column has the name 'ID', which id_column has too, .+"),
        ({"metadata_columns": {"_hoodie_x": "int"}}, "metadata_columns has the name '_hoodie_x', and those that .+"),
        ({"id_column": "_Hoodie_record_key"}, "id_column has the name '_Hoodie_record_key', and those that .+"),
    ],
)
def test_each_column_has_its_own_name(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{sentence}$"):
        DocumentTable(tmp_path / "t", **options)


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (pa.string(), ["a", None, "b"], "((`m` IS NOT NULL AND `m` IN ('a', 'b')) OR (`m` IS NULL))"),
        (pa.int32(), [1, 1 << 40, 2], f"((`m` IS NOT NULL AND `m` IN (1, 2)) OR (`m` <=> {1 << 40}))"),
        (pa.int64(), [1, 0.5], "((`m` IS NOT NULL AND `m` IN (1)) OR (`m` <=> 0.5D))"),
        (pa.float64(), [0.0, 1], "((`m` IS NOT NULL AND `m` IN (0.0D, 1)))"),
        (pa.float32(), [0.5], "((`m` <=> 0.5D))"),
        (pa.bool_(), [True], "((`m` IS NOT NULL AND `m` IN (TRUE)))"),
        (pa.int64(), [], "(FALSE)"),
    ],
)
def test_a_list_of_values_is_one_look_up(kind: pa.DataType, values: list[Any], text: str) -> None:
    assert MetadataFilter.of({"m": {"$in": values}}).where({"m": kind}).text == text
    assert MetadataFilter.of({"m": {"$nin": values}}).where({"m": kind}).text == f"(NOT {text})"


@pytest.mark.parametrize("operator", ["$in", "$nin"])
def test_a_look_up_knows_nan_null_and_the_sign_of_zero(operator: str) -> None:
    held = [0.0, -0.0, float("nan"), None, 1.5]
    table = pa.table({"x": pa.array(held, pa.float64())})
    for values in ([0.0], [-0.0, 1.5], [None], [2.0, None], []):
        wanted = MetadataFilter.of({"x": {operator: values}})
        text = wanted.where({"x": pa.float64()}).text or ""
        found = evaluate(parse(text, table.schema), table, "UTC").tolist()
        assert found == [matches(wanted.tree, {} if one is None else {"x": one}) for one in held]


def test_llama_index_takes_the_names_of_a_document_for_one(tmp_path: Path) -> None:
    llama_index = pytest.importorskip("hudi_vector.integrations.llama_index", exc_type=ImportError)
    from llama_index.core.vector_stores.types import MetadataFilter as Filter
    from llama_index.core.vector_stores.types import MetadataFilters

    store, ref = llama_index.HudiVectorStore(str(tmp_path / "t")), {"ref_doc_id": pa.string()}
    for name in ("doc_id", "document_id", "ref_doc_id"):
        inner = MetadataFilters(filters=[Filter(key=name, value="d")])
        # The second part is no comparison of columns, so that LlamaIndex's own function decides.
        matched = Filter(key=name, value="d", operator="text_match")
        assert store._condition(None, inner).where(ref).text == "(((`ref_doc_id` <=> 'd')))"
        where = store._condition(None, MetadataFilters(filters=[inner, matched])).where(ref)
        assert where.accepts("", None, {"ref_doc_id": "d"})
        assert not where.accepts("", None, {"ref_doc_id": "e"})


@pytest.mark.parametrize("method", ["get_nodes", "delete_nodes"])
def test_llama_index_takes_a_list_of_ids(method: str, tmp_path: Path) -> None:
    llama_index = pytest.importorskip("hudi_vector.integrations.llama_index", exc_type=ImportError)
    store = llama_index.HudiVectorStore(str(tmp_path / "t"))
    assert refused(InvalidTypeError, lambda: getattr(store, method)("n1")) == "ids must be a list of texts, not str"
    assert refused(InvalidTypeError, lambda: store.delete(None)) == "an id must be a text that is not blank, not None"


EARLY = dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))
"""A moment that is in the year 0 by UTC."""
HALF = "a\ud800"
PAIR = "holds half of a surrogate pair, which is no character, in "


@pytest.fixture
def langchain() -> Any:
    return pytest.importorskip("hudi_vector.integrations.langchain", exc_type=ImportError)


@pytest.fixture
def llama_index() -> Any:
    return pytest.importorskip("hudi_vector.integrations.llama_index", exc_type=ImportError)


@pytest.fixture
def haystack() -> Any:
    return pytest.importorskip("hudi_vector.integrations.haystack", exc_type=ImportError)


def langchain_store(langchain: Any, path: Path, **options: Any) -> Any:
    from langchain_core.embeddings import DeterministicFakeEmbedding

    return langchain.HudiVectorStore(path, DeterministicFakeEmbedding(size=2), **options)


@pytest.mark.parametrize(
    ("document", "kind", "sentence"),
    [
        (Stored(HALF, "a"), InvalidArgumentError, f"an id {PAIR}'a\\\\ud800'; .+"),
        (Stored("1", HALF), InvalidArgumentError, f"the text of document '1' {PAIR}.+"),
        (Stored("1", "a", {HALF: 1}), InvalidArgumentError, f"a name in the metadata of document '1' {PAIR}.+"),
        (Stored("1", "a", {"x": HALF}), InvalidArgumentError, f"metadata 'x' of document '1' {PAIR}.+"),
        (Stored("1", "a", {"x": [{"y": HALF}]}), InvalidArgumentError, f"metadata 'x' of document '1' {PAIR}.+"),
        (Stored("1", "a", {"name": HALF}), InvalidArgumentError, f"metadata 'name' of document '1' {PAIR}.+"),
        (Stored("1", "a", {}, 3), InvalidTypeError, "the vector of document '1' is no list of numbers; .+"),
        (Stored("1", "a", {}, [[1, 2]]), InvalidTypeError, "the vector of document '1' is no list of numbers; .+"),
        (
            Stored("1", "a", {"at": EARLY}),
            InvalidTypeError,
            "metadata 'at' of document '1' is .+, and column 'at' is .+",
        ),
        (Stored("1", 3), InvalidTypeError, "the text of document '1' is int; give a text"),
        (Stored("1", "a", [1]), InvalidTypeError, "the metadata of document '1' is list; give a dictionary"),
        (Stored("1", "a", {3: 1}), InvalidTypeError, "the metadata of document '1' has the name 3; give a text"),
    ],
)
def test_documents_that_cannot_be_stored(
    document: Any, kind: type[HudiVectorError], sentence: str, tmp_path: Path
) -> None:
    table = DocumentTable(tmp_path / "t", metadata_columns={"name": "string", "at": "timestamp"}, dimension=2)
    with pytest.raises(kind, match=f"^{sentence}$"):
        table.write([document])
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"refresh_every": float("nan")}, "refresh_every must be 0 seconds or more, and finite, not nan"),
        ({"refresh_every": "5"}, "refresh_every must be a number of seconds, not '5'"),
        ({"options": 5}, "options must be a dictionary of texts, not int"),
        ({"options": {5: 1}}, "options must be a dictionary of texts, and its key 5 is none"),
        ({"storage_options": [1]}, "storage_options must be a dictionary of texts, not list"),
        ({"storage_options": {5: 1}}, "storage_options must be a dictionary of texts, and its key 5 is none"),
        ({"metadata_columns": []}, "metadata_columns is a mapping such as {'price': 'double'}, not list"),
        ({"metadata_columns": {"a": ["int"]}}, "metadata_columns['a'] = ['int']; give one of string, int, bigint, "
         "double, boolean, date, timestamp"),
        ({"create": "no"}, "create must be True or False, not 'no'"),
        ({"element": ["float"]}, "element must be one of float, double, int8, not ['float']"),
        ({"text_column": HALF}, f"text_column {PAIR}{HALF!r}; remove it"),
    ],
)  # fmt: skip
def test_options_of_a_table(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    assert refused(HudiVectorError, lambda: DocumentTable(tmp_path / "t", **options)) == sentence


def test_stores_name_an_unknown_argument(langchain: Any, llama_index: Any, haystack: Any, tmp_path: Path) -> None:
    def refusal(call: Any) -> str:
        return refused(InvalidTypeError, call).partition(";")[0]

    path = tmp_path / "t"
    assert refusal(lambda: langchain_store(langchain, path, foo=1)) == "HudiVectorStore has no argument 'foo'"
    assert refusal(lambda: llama_index.HudiVectorStore(path, foo=1)) == "HudiVectorStore has no argument 'foo'"
    assert refusal(lambda: haystack.HudiDocumentStore(path, foo=1)) == "HudiDocumentStore has no argument 'foo'"
    wrong = {"metadata_columns": [1]}
    assert refusal(lambda: llama_index.HudiVectorStore(path, **wrong)).startswith("metadata_columns is a mapping")


def test_langchain_takes_lists_of_texts(langchain: Any, tmp_path: Path) -> None:
    store = langchain_store(langchain, tmp_path / "t")
    for kind, call, sentence in (
        (InvalidTypeError, lambda: store.add_texts(None), "texts must be a list of texts, not NoneType"),
        (InvalidTypeError, lambda: store.add_documents(None),
         "documents must be a list of LangChain's documents, not NoneType"),
        (InvalidTypeError, lambda: store.add_documents(["a"]),
         "documents must be LangChain's documents, and one is str"),
        (InvalidTypeError, lambda: store.add_texts("ab"), "texts must be a list of texts, not str"),
        (InvalidTypeError, lambda: store.add_texts(["a", 3]), "texts must be a list of texts, and texts[1] is int"),
        (InvalidArgumentError, lambda: store.add_texts([HALF]), f"texts[0] {PAIR}{HALF!r}; remove it"),
        (InvalidTypeError, lambda: store.add_texts(["a"], ids="b"),
         "ids must be a list with one value for each text, not str"),
        (InvalidTypeError, lambda: store.add_texts(["a"], {"b": 1}),
         "metadatas must be a list with one value for each text, not dict"),
        (InvalidTypeError, lambda: store.add_texts(["a"], [[1]], ids=["b"]),
         "the metadata of document 'b' is list; give a dictionary"),
        (InvalidArgumentError, lambda: store.from_texts(["a"], store.embeddings, [{}, {}], table=tmp_path / "t"),
         "metadatas has 2 values for 1 text; give one for each"),
        (InvalidTypeError, lambda: store.delete(ids="abc"), "ids must be a list of texts, not str"),
        (InvalidTypeError, lambda: store.similarity_search(None), "query must be a text, not NoneType"),
    ):  # fmt: skip
        assert refused(kind, call) == sentence
    assert not (tmp_path / "t").exists()


def test_langchain_needs_a_vector_for_each_text(langchain: Any, tmp_path: Path) -> None:
    from langchain_core.embeddings import DeterministicFakeEmbedding

    class Few(DeterministicFakeEmbedding):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return super().embed_documents(texts[1:])

    store = langchain.HudiVectorStore(tmp_path / "t", Few(size=2))
    sentence = refused(InvalidArgumentError, lambda: store.add_texts(["a", "b"]))
    assert sentence.endswith("Few gave 1 vector for 2 texts; it must give one for each")


@pytest.mark.parametrize("wrong", [True, 0, -1, 2.5, "3", None, 100_001])
def test_numbers_of_documents_are_named_as_they_were_given(
    wrong: Any, langchain: Any, llama_index: Any, haystack: Any, tmp_path: Path
) -> None:
    from llama_index.core.vector_stores.types import VectorStoreQuery

    chain, vector = langchain_store(langchain, tmp_path / "t"), [0.1, 0.2]
    index, stack = llama_index.HudiVectorStore(tmp_path / "t"), haystack.HudiDocumentStore(tmp_path / "t")
    for name, call in (
        ("k", lambda: chain.similarity_search("a", k=wrong)),
        ("k", lambda: chain.max_marginal_relevance_search("a", k=wrong)),
        ("fetch_k", lambda: chain.max_marginal_relevance_search("a", fetch_k=wrong)),
        ("fetch_k", lambda: chain.max_marginal_relevance_search_by_vector(vector, fetch_k=wrong)),
        ("similarity_top_k", lambda: index.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=wrong))),
        ("top_k", lambda: stack.embedding_retrieval(vector, top_k=wrong)),
        ("top_k", lambda: haystack.HudiEmbeddingRetriever(stack, top_k=wrong)),
    ):
        shown = "NULL" if wrong is None else repr(wrong)
        assert refused(InvalidArgumentError, call) == f"{name} must be a whole number from 1 to 100000, not {shown}"


@pytest.mark.parametrize("wrong", [True, -0.1, 1.5, float("nan"), "0.5", None])
def test_the_weight_of_unlike_documents(wrong: Any, langchain: Any, tmp_path: Path) -> None:
    store = langchain_store(langchain, tmp_path / "t")
    sentence = f"lambda_mult must be a number from 0 to 1, not {wrong!r}"
    for search in (store.max_marginal_relevance_search, store.max_marginal_relevance_search_by_vector):
        given = "a" if search == store.max_marginal_relevance_search else [0.1, 0.2]
        assert refused(InvalidArgumentError, lambda: search(given, lambda_mult=wrong)) == sentence  # noqa: B023
    assert store.max_marginal_relevance_search("a", lambda_mult=1) == []


def nested(depth: int) -> dict[str, Any]:
    """Return a filter of LangChain with so many conditions in each other."""
    return {"a": 1} if depth == 1 else {"$not": nested(depth - 1)}


def test_filters_within_each_other(langchain: Any, llama_index: Any, haystack: Any, tmp_path: Path) -> None:
    from haystack.errors import FilterError
    from llama_index.core.vector_stores.types import MetadataFilters

    sentence = "the filter has more than 100 conditions in each other, or holds itself; nest it less"
    MetadataFilter.of(nested(100)).where({})
    chain: dict[str, Any] = {"$or": [{"a": 1}]}
    chain["$or"].append(chain)
    stack: dict[str, Any] = {"operator": "AND", "conditions": []}
    stack["conditions"].append(stack)
    index = MetadataFilters(filters=[])
    index.filters.append(index)
    for given in (nested(101), nested(900), chain):
        assert refused(InvalidFilterError, lambda: MetadataFilter.of(given)) == sentence  # noqa: B023 - called here
    with pytest.raises(FilterError, match=f"^{sentence}$"):
        haystack.HudiDocumentStore(tmp_path / "t").filter_documents(stack)
    store = llama_index.HudiVectorStore(tmp_path / "t")
    for call in (store.get_nodes, store.delete_nodes):
        assert refused(InvalidFilterError, lambda: call(filters=index)) == sentence  # noqa: B023
    assert refused(InvalidTypeError, lambda: store.get_nodes(filters={"a": 1})).startswith("filters must be Metadata")


def test_filters_of_half_characters(langchain: Any, llama_index: Any, haystack: Any, tmp_path: Path) -> None:
    from haystack.errors import FilterError
    from llama_index.core.vector_stores.types import MetadataFilter as Filter
    from llama_index.core.vector_stores.types import MetadataFilters

    value = "the filter compares 'a' with a text that holds half of a surrogate pair; remove it"
    name = f"the filter names {HALF!r}, which holds half of a surrogate pair; remove it"
    for given, sentence in (({"a": HALF}, value), ({"a": {"$in": ["b", HALF]}}, value), ({"$not": {HALF: 1}}, name)):
        assert refused(InvalidFilterError, lambda: MetadataFilter.of(given)) == sentence  # noqa: B023 - called here
    store, stack = llama_index.HudiVectorStore(tmp_path / "t"), haystack.HudiDocumentStore(tmp_path / "t")
    wrong = MetadataFilters(filters=[Filter(key="a", value=HALF)])
    assert refused(InvalidFilterError, lambda: store.get_nodes(filters=wrong)) == value
    for leaf, sentence in (("a", value), (3, "'field' must be a text such as 'meta.price', not 3")):
        with pytest.raises(FilterError) as raised:
            stack.filter_documents({"field": leaf, "operator": "==", "value": HALF})
        assert str(raised.value) == sentence


def test_llama_index_needs_nodes_and_embeddings(llama_index: Any, tmp_path: Path) -> None:
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores.types import VectorStoreQuery

    store, vector = llama_index.HudiVectorStore(tmp_path / "t"), [0.1, 0.2]
    odd = TextNode(id_="n", text="a", embedding=vector, metadata={"a": object()})
    for call, sentence in (
        (lambda: store.add(None), "nodes must be a list of LlamaIndex's nodes, not NoneType"),
        (lambda: store.add(["a"]), "nodes must be LlamaIndex's nodes, and one is str"),
        (lambda: store.add([TextNode(id_="n")]), "node 'n' has no embedding; embed it first, as an index does"),
        (lambda: store.add([odd]), "node 'n' cannot be written as JSON, which all of it must: Unable to serialize "
         "unknown type: <class 'object'>"),
        (lambda: store.query([0.1]), "query must be a VectorStoreQuery of LlamaIndex, not list"),
        (lambda: store.query(VectorStoreQuery()), "the query has no embedding; give query_embedding, a list of "
         "numbers"),
        (lambda: store.query(VectorStoreQuery(vector, mode="sparse")), "the mode of a query must be 'default', not "
         "'sparse'"),
    ):  # fmt: skip
        assert refused(HudiVectorError, call) == sentence
    assert store.query(VectorStoreQuery(vector, mode="default")).ids == []


def test_haystack_takes_metadata_and_policies(haystack: Any, tmp_path: Path) -> None:
    from haystack import Document

    store = haystack.HudiDocumentStore(tmp_path / "t")
    given = {"field": "meta.a", "operator": "==", "value": 1}
    for call, sentence in (
        (lambda: store.write_documents([Document(id="d", meta=3)]),
         "the metadata of document 'd' is int; give a dictionary"),
        (lambda: store.write_documents([], "skip"), "policy must be a DuplicatePolicy of Haystack, not 'skip'"),
        (lambda: store.update_by_filter(given, None), "meta must be a dictionary of metadata to set, not NoneType"),
        (lambda: haystack.HudiEmbeddingRetriever(store, filter_policy=3),
         "filter_policy must be 'replace' or 'merge', not 3"),
        (lambda: haystack.HudiEmbeddingRetriever(store, filter_policy="both"),
         "filter_policy must be 'replace' or 'merge', not 'both'"),
    ):  # fmt: skip
        assert refused(HudiVectorError, call) == sentence


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_stores_can_be_copied_to_other_processes(
    copied: Any, langchain: Any, llama_index: Any, haystack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"metadata_columns": {"price": "double"}, "dimension": 2, "storage_options": {"fs.a": "b"}}
    table = copied(DocumentTable("t", metric="l2", options={"hoodie.vector.search.local.threads": "1"}, **options))
    assert (table.path, table.metric, table._dimension) == (str(tmp_path / "t"), "l2", 2)
    assert table._wanted.types == {"price": pa.float64()}
    assert table._conf == {"hoodie.vector.search.local.threads": "1"}
    assert table.count() == 0
    assert copied(langchain_store(langchain, tmp_path / "t", **options)).similarity_search("a") == []
    assert copied(llama_index.HudiVectorStore(tmp_path / "t", **options)).get_nodes() == []
    store = haystack.HudiDocumentStore(tmp_path / "t", spark=object(), **options)
    assert copied(store).to_dict() == store.to_dict()
    assert copied(haystack.HudiEmbeddingRetriever(store, top_k=3)).run([0.1, 0.2]) == {"documents": []}


@pytest.mark.parametrize("value", [np.int64(1), np.float64(1.0), np.float32(1.0)])
def test_a_number_of_numpy_filters_as_a_number(value: Any) -> None:
    for given in ({"m": value}, {"m": {"$in": [value]}}, {"m": {"$gte": value, "$lte": value}}):
        wanted = MetadataFilter.of(given)
        assert wanted.where({"m": pa.float64()}).text == MetadataFilter.of(plain(given)).where({"m": pa.float64()}).text
        assert matches(wanted.tree, {"m": 1})
        assert not matches(wanted.tree, {"m": 2})
    sentence = refused(InvalidFilterError, lambda: MetadataFilter.of({"m": np.array([1, 2])}))
    assert sentence == "'$eq' of 'm' takes no array; give one value, or {'$in': values}"


def plain(given: Any) -> Any:
    """Return a filter with numbers of Python in place of those of numpy."""
    if isinstance(given, dict):
        return {name: plain(value) for name, value in given.items()}
    return [plain(one) for one in given] if isinstance(given, list) else getattr(given, "item", lambda: given)()


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.date32()])
def test_a_moment_without_a_value_in_python_is_named(kind: pa.DataType, tmp_path: Path) -> None:
    table = DocumentTable(tmp_path / "t")
    rows = pa.table({"at": pa.array([-(10**6)], pa.int32()).cast(pa.date32()).cast(kind)})
    sentence = refused(UnsupportedTableError, lambda: table._listed(rows))
    assert sentence.startswith(f"a row of '{tmp_path / 't'}' has a day or a moment outside of the years 1 to 9999")


def test_a_new_table_has_vectors_that_its_metric_compares(tmp_path: Path) -> None:
    table = DocumentTable(tmp_path / "t", metric="hamming")
    with pytest.raises(HudiVectorError, match="hamming"):
        table.write([Stored("1", "a", {}, [0.5, 1.0])])
    assert not (tmp_path / "t").exists()


def test_haystack_compares_with_no_array(haystack: Any, tmp_path: Path) -> None:
    from haystack.errors import FilterError

    store = haystack.HudiDocumentStore(tmp_path / "t")
    given = {"field": "meta.a", "operator": "==", "value": np.array([1, 2])}
    with pytest.raises(FilterError, match=r"^'value' of 'meta.a' is an array \(numpy.ndarray\); give one value, .+$"):
        store.filter_documents(given)
    assert store.filter_documents({**given, "value": np.int64(1)}) == []
