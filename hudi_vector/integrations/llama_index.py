"""LlamaIndex's vector store over a Hudi table; needs the extra ``llama-index``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    InvalidVectorError,
    MissingDependencyError,
    first_line,
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
from hudi_vector.integrations.documents import DocumentTable, Stored, TableOptions, as_list

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import BaseNode, MetadataMode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import (
        build_metadata_filter_fn,
        metadata_dict_to_node,
        node_to_metadata_dict,
    )
except ImportError as absent:
    raise MissingDependencyError.of("llama-index-core", "llama-index", "HudiVectorStore") from absent

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

__all__ = ["HudiVectorStore"]

_REF = "ref_doc_id"
_SAME_AS_REF = ("doc_id", "document_id")
_OPERATORS = {"==": "==", "!=": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<=", "in": "in", "nin": "not in"}


class HudiVectorStore(BasePydanticVectorStore):  # type: ignore[misc]
    """A vector store of LlamaIndex over one Hudi table.

    Each `add`, `delete` and `delete_nodes` is one commit of Hudi, which takes seconds whatever its size: give
    many nodes in one call. Queries start no Spark job. Threads may share the store.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> from llama_index.core.vector_stores.types import VectorStoreQuery
        >>> store = HudiVectorStore("/tmp/llama-notes", spark=spark)
        >>> store.add([TextNode(id_="pen", text="a pen", embedding=[0.1, 0.2])])
        ['pen']
        >>> store.query(VectorStoreQuery(query_embedding=[0.1, 0.2], similarity_top_k=1)).ids
        ['pen']
    """

    stores_text: bool = True
    _table: DocumentTable = PrivateAttr()

    @known_arguments(TableOptions)
    def __init__(self, table: str | os.PathLike[str], **options: Unpack[TableOptions]) -> None:
        """Open the table, which the first write makes if it is not there.

        Args:
            table: The base path of the table.
            options: The session that writes, names and types of columns, the metric …: see `TableOptions`. The id of
                the document that a node is of has a column in any case.
        """
        super().__init__(stores_text=True)
        given = options.get("metadata_columns")
        if given is None or isinstance(given, Mapping):  # the table refuses what is none
            options["metadata_columns"] = {_REF: "string", **(given or {})}
        self._table = DocumentTable(table, **options)

    @property
    def client(self) -> DocumentTable:
        """Return the table of documents under the store."""
        return self._table

    def add(self, nodes: Sequence[BaseNode], **none: Any) -> list[str]:  # noqa: ARG002 - indexes pass what others take
        """Write nodes by one commit; they replace those with the same id.

        Args:
            nodes: The nodes, with embeddings.
            none: Not used.

        Returns:
            The ids of the nodes.

        Raises:
            InvalidTypeError: They are no list of nodes, or metadata cannot be stored.
            InvalidVectorError: A node has no embedding.
        """
        listed = as_list(nodes, "nodes", "of LlamaIndex's nodes")
        self._table.write([_stored(node) for node in listed])
        return [node.node_id for node in listed]

    def delete(self, ref_doc_id: str, **none: Any) -> None:  # noqa: ARG002
        """Delete the nodes of a document by one commit.

        Args:
            ref_doc_id: The id of the document.
            none: Not used.
        """
        with self._table.turn():
            self._table.delete(self._table.ids(self._condition(None, None, [ref_doc_id])))

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return nodes with their embeddings, in the order of their ids.

        Args:
            node_ids: The ids; by default all.
            filters: A filter of LlamaIndex.

        Returns:
            The nodes.
        """
        return [_node(each) for each in self._table.read(self._condition(node_ids, filters), vectors=True)]

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **none: Any,  # noqa: ARG002
    ) -> None:
        """Delete nodes by one commit.

        Args:
            node_ids: The ids; by default all that pass the filter.
            filters: A filter of LlamaIndex.
            none: Not used.

        Raises:
            InvalidArgumentError: Neither ids nor a filter are given, or a part of the filter is empty.
        """
        _require_filter(filters)
        if node_ids is None and (filters is None or _is_empty(filters)):
            raise InvalidArgumentError(
                "delete_nodes needs node_ids, or filters without an empty part; use clear to delete all nodes"
            )
        with self._table.turn():
            self._table.delete(self._table.ids(self._condition(node_ids, filters)))

    def clear(self) -> None:
        """Delete all nodes by one commit; older instants still have them, until Hudi cleans."""
        self._table.delete()

    def query(self, query: VectorStoreQuery, *, as_of: Any = None, **none: Any) -> VectorStoreQueryResult:  # noqa: ARG002
        """Return the nodes nearest to an embedding, the nearest first.

        Args:
            query: The embedding, the number of nodes, the filters, and ids of nodes or documents among which to search.
            as_of: An instant of the timeline or a timestamp, to search what was visible then; by default now.
            none: Not used.

        Returns:
            The nodes, their ids, and similarities: the cosine similarity or the dot product, and by other metrics 1 /
            (1 + the distance).

        Raises:
            InvalidArgumentError: The mode of the query is another one than ``default``, or it has no embedding.
        """
        if not isinstance(query, VectorStoreQuery):
            raise InvalidTypeError(f"query must be a VectorStoreQuery of LlamaIndex, not {kind_of(query)}")
        if query.mode != VectorStoreQueryMode.DEFAULT:
            mode = getattr(query.mode, "value", query.mode)
            raise InvalidArgumentError(f"the mode of a query must be 'default', not {mode!r}")
        if query.query_embedding is None:
            raise InvalidVectorError("the query has no embedding; give query_embedding, a list of numbers")
        condition = self._condition(query.node_ids, query.filters, query.doc_ids)
        found = self._table.search(
            query.query_embedding,
            query.similarity_top_k,
            filter=condition,
            as_of=as_of,
            k_name="similarity_top_k",
        )
        return VectorStoreQueryResult(
            nodes=[_node(each) for each in found],
            similarities=[self._table.score(each.distance) for each in found],
            ids=[each.id for each in found],
        )

    async def async_add(self, nodes: Sequence[BaseNode], **none: Any) -> list[str]:
        """Write nodes as `add` does, in a thread."""
        return await asyncio.to_thread(self.add, nodes, **none)

    async def adelete(self, ref_doc_id: str, **none: Any) -> None:
        """Delete the nodes of a document as `delete` does, in a thread."""
        await asyncio.to_thread(self.delete, ref_doc_id, **none)

    async def aquery(self, query: VectorStoreQuery, **options: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to an embedding as `query` does, in a thread."""
        return await asyncio.to_thread(self.query, query, **options)

    def _condition(
        self, ids: Sequence[str] | None, filters: MetadataFilters | None, documents: Sequence[str] | None = None
    ) -> _Filter | None:
        _require_filter(filters)
        among = None if ids is None else self._table.listed(ids)
        every = [filters] if filters is not None and filters.filters else []
        every += [_of_document(self._table.listed(documents))] if documents else []
        wanted = MetadataFilters(filters=every)
        return _Filter(wanted, self._table.id_column, among) if every or among is not None else None


def _require_filter(filters: Any) -> None:
    """Raise an error unless a filter is one of LlamaIndex, of texts that can be stored, or None."""
    if filters is None:
        return
    if not isinstance(filters, MetadataFilters):
        raise InvalidTypeError(f"filters must be MetadataFilters of LlamaIndex, not {kind_of(filters)}")
    require_shallow(filters, lambda one: one.filters if isinstance(one, MetadataFilters) else ())
    require_characters(_tree(filters))


def _is_empty(filters: MetadataFilters) -> bool:
    """Return True if a filter, or one within it, compares nothing: all nodes pass such a part."""
    return not filters.filters or any(isinstance(each, MetadataFilters) and _is_empty(each) for each in filters.filters)


class _Filter:
    """A filter of LlamaIndex, whose own function decides what columns do not express, and ids of nodes."""

    def __init__(self, filters: MetadataFilters, id_column: str, ids: Sequence[str] | None = None) -> None:
        self._filters = _of_columns(filters)
        self._id_column = id_column
        self._ids = ids

    def where(self, types: Mapping[str, pa.DataType]) -> Where:
        """Return the condition for a table whose metadata columns have these types."""

        def expressed(leaf: Comparison) -> str | None:
            kind = types.get(leaf.field)
            if kind is None or leaf.operator not in _OPERATORS.values() or leaf.value is None:
                return None
            return comparison_text(leaf, leaf.field, kind)

        text, is_whole = split(_tree(self._filters), expressed)
        if self._ids is not None:
            among = comparison_text(Comparison("", "in", list(self._ids)), self._id_column, pa.string())
            text = f"{among} AND {text or 'TRUE'}"
        return Where(text) if is_whole else Where(text, lambda _id, _text, metadata: _passes(self._filters, metadata))


def _of_document(documents: Sequence[str]) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=_REF, value=list(documents), operator="in")])


def _of_columns(given: MetadataFilters) -> MetadataFilters:
    """Return a filter with the name of the column for each name that LlamaIndex gives the id of a node's document."""
    terms: list[MetadataFilters | MetadataFilter] = []
    for one in given.filters:
        if isinstance(one, MetadataFilters):
            terms.append(_of_columns(one))
        else:
            terms.append(one.model_copy(update={"key": _REF}) if one.key in _SAME_AS_REF else one)
    return MetadataFilters(filters=terms, condition=given.condition)


def _tree(given: MetadataFilters | MetadataFilter) -> Comparison | Logic:
    if isinstance(given, MetadataFilter):
        name = given.operator.value
        return Comparison(given.key, _OPERATORS.get(name, name), given.value)
    terms = tuple(_tree(one) for one in given.filters)
    if given.condition == FilterCondition.NOT:  # none of them may hold
        return Logic("NOT", (Logic("OR", terms),))
    return Logic("OR" if given.condition == FilterCondition.OR else "AND", terms)


def _passes(given: MetadataFilters | MetadataFilter, metadata: Mapping[str, Any]) -> bool:
    if isinstance(given, MetadataFilter):
        return bool(build_metadata_filter_fn(lambda _: metadata, MetadataFilters(filters=[given]))(""))
    each = (_passes(one, metadata) for one in given.filters)
    if given.condition in (None, FilterCondition.AND):
        return all(each)
    return any(each) is (given.condition == FilterCondition.OR)


def _stored(node: Any) -> Stored:
    if not isinstance(node, BaseNode):
        raise InvalidTypeError(f"nodes must be LlamaIndex's nodes, and one is {kind_of(node)}")
    if node.embedding is None:
        raise InvalidVectorError(f"node '{node.node_id}' has no embedding; embed it first, as an index does")
    try:
        metadata = node_to_metadata_dict(node, remove_text=True)
    except (TypeError, ValueError) as problem:
        raise InvalidTypeError(
            f"node '{node.node_id}' cannot be written as JSON, which all of it must: {first_line(problem)}"
        ) from None
    kept = {name: value for name, value in metadata.items() if name not in ("document_id", "doc_id", _REF)}
    if node.ref_doc_id is not None:
        kept[_REF] = node.ref_doc_id
    return Stored(node.node_id, node.get_content(MetadataMode.NONE), kept, node.embedding)


def _node(stored: Stored) -> BaseNode:
    node = metadata_dict_to_node(dict(stored.metadata), text=stored.text)
    node.embedding = None if stored.vector is None else list(stored.vector)
    return node
