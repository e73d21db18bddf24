"""Haystack's document store and its retriever over a Hudi table; needs the extra ``haystack``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hudi_vector.arguments import as_k, known_arguments
from hudi_vector.errors import (
    InvalidArgumentError,
    InvalidFilterError,
    InvalidTypeError,
    MissingDependencyError,
    kind_of,
)
from hudi_vector.integrations.conditions import (
    Comparison,
    Logic,
    Where,
    comparison_text,
    require_characters,
    require_shallow,
    split,
)
from hudi_vector.integrations.documents import DocumentTable, Stored, TableOptions

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy
    from haystack.errors import FilterError
    from haystack.utils.filters import document_matches_filter
except ImportError as absent:
    raise MissingDependencyError.of("haystack-ai", "haystack", "HudiDocumentStore") from absent

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

__all__ = ["HudiDocumentStore", "HudiEmbeddingRetriever"]

_OPERATORS = ("==", "!=", ">", ">=", "<", "<=", "in", "not in")
_LOGIC = ("AND", "OR", "NOT")
_EVERY = "all documents pass {'field': 'id', 'operator': '!=', 'value': None}"
_DAY = 10  # characters of a day in ISO's form


class HaystackFilter:
    """A filter of Haystack over a table whose id and text have columns, and its metadata columns or JSON.

    What columns express as Haystack means it is evaluated while files are read. The rest is decided by Haystack's own
    function, for which the ids, texts and metadata of all rows that pass the first part are read.
    """

    def __init__(self, filters: Mapping[str, Any], id_column: str, text_column: str) -> None:
        """Check a filter; raise FilterError if it is none."""
        self._filters = filters
        try:
            require_shallow(filters, _within)
            self._tree = require_characters(_tree(filters))
        except InvalidFilterError as refused:
            raise FilterError(str(refused)) from None
        self._own = {"id": id_column, "content": text_column}

    def where(self, types: Mapping[str, pa.DataType]) -> Where:
        """Return the condition for a table whose metadata columns have these types."""

        def expressed(leaf: Comparison) -> str | None:
            column = self._own.get(leaf.field)
            kind = pa.string() if column is not None else types.get(leaf.field.removeprefix("meta."))
            if kind is None or not _is_plain(leaf, kind):
                return None
            return comparison_text(leaf, column or leaf.field.removeprefix("meta."), kind)

        text, is_whole = split(self._tree, expressed)
        return Where(text) if is_whole else Where(text, self._accepts, "content" in _fields(self._tree))

    @property
    def compares(self) -> bool:
        """Return True if each part of the filter compares something: all documents pass a part without conditions."""
        return _compares(self._tree)

    def _accepts(self, key: str, text: str | None, metadata: dict[str, Any]) -> bool:
        return bool(document_matches_filter(self._filters, Document(id=key, content=text, meta=metadata)))


def _is_plain(leaf: Comparison, kind: pa.DataType) -> bool:
    """Return True if Haystack compares as a column does: it takes texts that look like a day for moments."""
    values = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    if leaf.value is None:
        return True
    if pa.types.is_date(kind):
        return False
    if leaf.operator in ("<", "<=", ">", ">="):
        return not isinstance(leaf.value, (list, bool)) and not pa.types.is_string(kind)
    texts = [value for value in values if isinstance(value, str)]
    if pa.types.is_timestamp(kind):
        return all(len(text) >= _DAY and text[4] == text[7] == "-" for text in texts)
    return all(len(text) < _DAY or not text[:4].isdigit() for text in texts)


def _compares(tree: Comparison | Logic) -> bool:
    return isinstance(tree, Comparison) or (bool(tree.terms) and all(map(_compares, tree.terms)))


def _fields(tree: Comparison | Logic) -> set[str]:
    if isinstance(tree, Comparison):
        return {tree.field}
    return set[str]().union(*map(_fields, tree.terms))


def _within(given: Any) -> Iterable[Any]:
    """Return the filters that a filter joins."""
    conditions = given.get("conditions") if isinstance(given, Mapping) and "field" not in given else None
    return conditions if isinstance(conditions, list) else ()


def _tree(given: Any) -> Comparison | Logic:
    if not isinstance(given, Mapping):
        raise FilterError(f"a filter of Haystack is a dictionary with 'operator', not {kind_of(given)}")
    if "field" not in given:
        _require(given, "operator", "conditions")
        if given["operator"] not in _LOGIC:
            raise FilterError(
                f"unknown operator {given['operator']!r}; the operators of conditions are {', '.join(_LOGIC)}"
            )
        if not isinstance(given["conditions"], list):
            raise FilterError(f"'conditions' must be a list of filters, not {given['conditions']!r}")
        return Logic(given["operator"], tuple(_tree(one) for one in given["conditions"]))
    _require(given, "operator", "value")
    name, operator, value = given["field"], given["operator"], given["value"]
    if not isinstance(name, str):
        raise FilterError(f"'field' must be a text such as 'meta.price', not {name!r}")
    if operator not in _OPERATORS:
        raise FilterError(f"unknown operator {operator!r}; the operators of values are {', '.join(_OPERATORS)}")
    if operator in ("in", "not in") and not isinstance(value, list):
        raise FilterError(f"'{operator}' of '{name}' takes a list, not {value!r}")
    if hasattr(value, "__array__") and not np.isscalar(value):
        raise FilterError(f"'value' of '{name}' is an array ({kind_of(value)}); give one value, or a list with 'in'")
    if name in ("embedding", "sparse_embedding", "blob", "score"):
        raise FilterError(f"'{name}' is nothing that a filter reads; filter by id, content or meta")
    return Comparison(name, operator, value)


def _require(given: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if key not in given:
            raise FilterError(f"'{key}' is missing in the filter {dict(given)!r}")


class HudiDocumentStore:
    """A document store of Haystack over one Hudi table.

    Each `write_documents` and `delete_documents` is one commit of Hudi, which takes seconds whatever its size:
    give many documents in one call. Everything else starts no Spark job. Threads may share the store.

    Example:
        >>> from haystack import Document
        >>> store = HudiDocumentStore("/tmp/haystack-notes", spark=spark)
        >>> store.write_documents([Document(content="a pen", meta={"price": 2}, embedding=[0.1, 0.2])])
        1
        >>> store.count_documents_by_filter({"field": "meta.price", "operator": "<", "value": 5})
        1
    """

    @known_arguments(TableOptions)
    def __init__(self, table: str | os.PathLike[str], **options: Unpack[TableOptions]) -> None:
        """Open the table, which the first write makes if it is not there.

        Args:
            table: The base path of the table.
            options: The session that writes, names and types of columns, the metric …: see `TableOptions`.

        Raises:
            TableNotFoundError: There is no table, and ``create`` is False.
            InvalidArgumentError: An argument is not allowed, or contradicts the table.
        """
        self._table = DocumentTable(table, **options)
        self._options = {name: value for name, value in options.items() if name != "spark"}

    def to_dict(self) -> dict[str, Any]:
        """Return the store as a dictionary, without its session.

        Returns:
            The dictionary.

        Example:
            >>> HudiDocumentStore("/tmp/haystack-saved").to_dict()["init_parameters"]
            {'table': '/tmp/haystack-saved'}
        """
        found: dict[str, Any] = default_to_dict(self, table=self._table.path, **self._options)
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HudiDocumentStore:
        """Return the store of a dictionary; it writes with the active session.

        Args:
            data: The dictionary.

        Returns:
            The store.

        Example:
            >>> store = HudiDocumentStore.from_dict(HudiDocumentStore("/tmp/haystack-saved").to_dict())
            >>> store.count_documents()
            0
        """
        found: HudiDocumentStore = default_from_dict(cls, data)
        return found

    def count_documents(self) -> int:
        """Return the number of documents.

        Returns:
            The number.

        Example:
            >>> HudiDocumentStore("/tmp/haystack-none", spark=spark).count_documents()
            0
        """
        return self._table.count()

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return the number of documents that pass a filter.

        Args:
            filters: A filter of Haystack.

        Returns:
            The number.

        Example:
            >>> store = HudiDocumentStore("/tmp/haystack-none", spark=spark)
            >>> store.count_documents_by_filter({"field": "meta.price", "operator": "<", "value": 5})
            0
        """
        return self._table.count(self._condition(filters))

    def filter_documents(self, filters: dict[str, Any] | None = None, as_of: Any = None) -> list[Document]:
        """Return the documents that pass a filter, in the order of their ids, with their embeddings.

        Args:
            filters: A filter of Haystack; None or an empty one for all documents.
            as_of: An instant of the timeline or a timestamp, to read what was visible then; by default now.

        Returns:
            The documents.

        Raises:
            FilterError: The filter is none, or compares what has no order.

        Example:
            >>> HudiDocumentStore("/tmp/haystack-none", spark=spark).filter_documents()
            []
        """
        return [_document(each) for each in self._table.read(self._condition(filters), as_of, vectors=True)]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents by one commit.

        Args:
            documents: The documents, with or without embeddings.
            policy: The treatment of ids that the table, or an earlier document of the list, has: ``FAIL`` refuses all,
                ``SKIP`` keeps the old ones, ``OVERWRITE`` replaces them. ``NONE`` is ``FAIL``.

        Returns:
            The number of documents written.

        Raises:
            DuplicateDocumentError: The policy is ``FAIL``, and an id is there already.
            InvalidTypeError: Metadata does not fit its column, or JSON cannot hold it.
            InvalidArgumentError: A document has a blob or a sparse embedding.

        Example:
            >>> from haystack import Document
            >>> store = HudiDocumentStore("/tmp/haystack-written", spark=spark, dimension=2)
            >>> store.write_documents([Document(content="a pen"), Document(content="a cup")])
            2
        """
        if not isinstance(documents, Iterable) or isinstance(documents, (str, Mapping)):
            raise InvalidArgumentError(f"documents must be a list of Haystack's documents, not {kind_of(documents)}")
        if not isinstance(policy, DuplicatePolicy):
            raise InvalidTypeError(f"policy must be a DuplicatePolicy of Haystack, not {policy!r}")
        kept: dict[str, Document] = {}
        listed = list(documents)
        for document in listed:
            _require_storable(document)
            if document.id in kept and policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
                raise DuplicateDocumentError(f"id '{document.id}' is given twice; use SKIP or OVERWRITE")
            if document.id not in kept or policy is DuplicatePolicy.OVERWRITE:
                kept[document.id] = document
        with self._table.turn():
            if policy is not DuplicatePolicy.OVERWRITE:
                there = {each.id for each in self._table.get(kept)}
                if there and policy is not DuplicatePolicy.SKIP:
                    raise DuplicateDocumentError(f"the table has id '{min(there)}' already; use SKIP or OVERWRITE")
                kept = {key: document for key, document in kept.items() if key not in there}
            self._table.write([_stored(document) for document in kept.values()])
        return len(listed) if policy is DuplicatePolicy.OVERWRITE else len(kept)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by one commit; unknown ids are ignored.

        Args:
            document_ids: The ids.

        Raises:
            InvalidTypeError: They are no list, such as None.

        Example:
            >>> HudiDocumentStore("/tmp/haystack-none", spark=spark).delete_documents(["unknown"])
        """
        if document_ids is None:
            raise InvalidTypeError("document_ids must be a list of ids, not None; delete_all_documents deletes all")
        self._table.delete(document_ids)

    def delete_all_documents(self) -> None:
        """Delete all documents by one commit; older instants still have them, until Hudi cleans.

        Example:
            >>> HudiDocumentStore("/tmp/haystack-none", spark=spark).delete_all_documents()
        """
        self._table.delete()

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that pass a filter by one commit.

        Args:
            filters: A filter of Haystack.

        Returns:
            The number of deleted documents.

        Raises:
            InvalidArgumentError: The filter, or a part of it, is empty.

        Example:
            >>> store = HudiDocumentStore("/tmp/haystack-none", spark=spark)
            >>> store.delete_by_filter({"field": "meta.price", "operator": "<", "value": 5})
            0
        """
        condition = self._narrowing(filters, "delete_by_filter", "delete_all_documents deletes all")
        with self._table.turn():
            return self._table.delete(self._table.ids(condition))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set metadata of the documents that pass a filter by one commit.

        Args:
            filters: A filter of Haystack.
            meta: The metadata to set; other metadata stays.

        Returns:
            The number of changed documents.

        Raises:
            InvalidArgumentError: The filter, or a part of it, is empty.

        Example:
            >>> store = HudiDocumentStore("/tmp/haystack-none", spark=spark)
            >>> store.update_by_filter({"field": "meta.price", "operator": "<", "value": 5}, {"cheap": True})
            0
        """
        if not isinstance(meta, Mapping):
            raise InvalidTypeError(f"meta must be a dictionary of metadata to set, not {kind_of(meta)}")
        condition = self._narrowing(filters, "update_by_filter", _EVERY)
        with self._table.turn():
            found = self._table.read(condition, vectors=True)
            self._table.write([Stored(one.id, one.text, {**one.metadata, **meta}, one.vector) for one in found])
        return len(found)

    def embedding_retrieval(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        as_of: Any = None,
        return_embedding: bool = False,
    ) -> list[Document]:
        """Return the documents nearest to an embedding, the nearest first.

        Args:
            query_embedding: The embedding.
            filters: A filter of Haystack, applied before distances.
            top_k: The number of documents.
            as_of: As for `filter_documents`.
            return_embedding: True for documents with their embeddings.

        Returns:
            The documents. Their score is the cosine similarity or the dot product, and by other metrics 1 / (1 + the
            distance).

        Example:
            >>> HudiDocumentStore("/tmp/haystack-none", spark=spark).embedding_retrieval([0.1, 0.2])
            []
        """
        condition = self._condition(filters)
        found = self._table.search(
            query_embedding, top_k, filter=condition, as_of=as_of, vectors=return_embedding, k_name="top_k"
        )
        return [_document(each, self._table.score(each.distance)) for each in found]

    def _narrowing(self, filters: Mapping[str, Any], call: str, otherwise: str) -> HaystackFilter:
        """Return the condition of a change; raise InvalidArgumentError for one that would change all documents."""
        condition = self._condition(filters)
        if condition is None or not condition.compares:
            raise InvalidArgumentError(
                f"{call} needs a filter whose every part compares a field, not {filters!r}; {otherwise}"
            )
        return condition

    def _condition(self, filters: Mapping[str, Any] | None) -> HaystackFilter | None:
        if filters is None or (isinstance(filters, Mapping) and not filters):
            return None
        return HaystackFilter(filters, self._table.id_column, self._table.text_column)


@component
class HudiEmbeddingRetriever:
    """A retriever of Haystack: the documents of a `HudiDocumentStore` nearest to an embedding.

    Example:
        >>> retriever = HudiEmbeddingRetriever(HudiDocumentStore("/tmp/haystack-none", spark=spark), top_k=3)
        >>> retriever.run([0.1, 0.2])
        {'documents': []}
    """

    def __init__(
        self,
        document_store: HudiDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        as_of: Any = None,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        """Make a retriever.

        Args:
            document_store: The store.
            filters: The filter of searches that give none, or with the policy ``merge`` of all.
            top_k: The number of documents.
            as_of: An instant of the timeline or a timestamp, to search what was visible then; by default now.
            filter_policy: ``replace`` or ``merge``.

        Raises:
            InvalidTypeError: The store is another one.
            InvalidArgumentError: `top_k` or the policy is not allowed.
        """
        if not isinstance(document_store, HudiDocumentStore):
            raise InvalidTypeError(f"document_store must be a HudiDocumentStore, not {kind_of(document_store)}")
        self.document_store = document_store
        self.filters = filters
        self.top_k = as_k(top_k, "top_k")
        self.as_of = as_of
        self.filter_policy = _filter_policy(filter_policy)

    def to_dict(self) -> dict[str, Any]:
        """Return the retriever as a dictionary.

        Returns:
            The dictionary.

        Example:
            >>> HudiEmbeddingRetriever(HudiDocumentStore("/tmp/haystack-none")).to_dict()["init_parameters"]["top_k"]
            10
        """
        found: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            filters=self.filters,
            top_k=self.top_k,
            as_of=self.as_of,
            filter_policy=self.filter_policy.value,
        )
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HudiEmbeddingRetriever:
        """Return the retriever of a dictionary.

        Args:
            data: The dictionary.

        Returns:
            The retriever.

        Example:
            >>> saved = HudiEmbeddingRetriever(HudiDocumentStore("/tmp/haystack-none"), top_k=3).to_dict()
            >>> HudiEmbeddingRetriever.from_dict(saved).top_k
            3
        """
        given = data["init_parameters"]
        store = given["document_store"]
        if isinstance(store, Mapping):
            given = {**given, "document_store": HudiDocumentStore.from_dict(dict(store))}
        found: HudiEmbeddingRetriever = default_from_dict(cls, {**data, "init_parameters": given})
        return found

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the documents nearest to an embedding.

        Args:
            query_embedding: The embedding.
            filters: A filter of Haystack for this search.
            top_k: The number of documents, instead of the retriever's.

        Returns:
            The documents under the name ``documents``.

        Example:
            >>> HudiEmbeddingRetriever(HudiDocumentStore("/tmp/haystack-none", spark=spark)).run([0.1, 0.2], top_k=1)
            {'documents': []}
        """
        wanted = apply_filter_policy(self.filter_policy, self.filters, filters)
        most = self.top_k if top_k is None else top_k
        return {"documents": self.document_store.embedding_retrieval(query_embedding, wanted, most, self.as_of)}


def _filter_policy(given: Any) -> FilterPolicy:
    """Return a policy, also given by its name; raise InvalidArgumentError if there is none of that name."""
    if isinstance(given, FilterPolicy):
        return given
    for policy in FilterPolicy:
        if given == policy.value:
            return policy
    raise InvalidArgumentError(f"filter_policy must be 'replace' or 'merge', not {given!r}")


def _require_storable(document: Any) -> None:
    if not isinstance(document, Document):
        raise InvalidArgumentError(f"documents must be Haystack's documents, and one is {kind_of(document)}")
    for name in ("blob", "sparse_embedding"):
        if getattr(document, name) is not None:
            raise InvalidArgumentError(
                f"document '{document.id}' has a {name.replace('_', ' ')}, for which the table has no column; "
                "leave it out, and write it with hudi_vector.write to a table with such a column"
            )


def _stored(document: Document) -> Stored:
    return Stored(document.id, document.content, document.meta, document.embedding)


def _document(stored: Stored, score: float | None = None) -> Document:
    vector = None if stored.vector is None else list(stored.vector)
    return Document(id=stored.id, content=stored.text, meta=dict(stored.metadata), embedding=vector, score=score)
