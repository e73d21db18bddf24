"""The stores of other libraries before anything is written: what they refuse, each by one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_vector.errors import HudiVectorError, InvalidArgumentError, InvalidTypeError
from hudi_vector.integrations.conditions import MetadataFilter, matches
from hudi_vector.integrations.documents import DocumentTable
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
