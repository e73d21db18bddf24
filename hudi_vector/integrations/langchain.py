"""LangChain's vector store over a Hudi table; needs the extra ``langchain``."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hudi_vector.arguments import as_k, known_arguments, require_unicode
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, MissingDependencyError, kind_of, number_of
from hudi_vector.integrations.conditions import MetadataFilter
from hudi_vector.integrations.documents import DocumentTable, Filter, Stored, TableOptions, as_list
from hudi_vector.query.tuning import SearchOptions

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
except ImportError as absent:
    raise MissingDependencyError.of("langchain-core", "langchain", "HudiVectorStore") from absent

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

__all__ = ["HudiVectorStore"]


class SearchArguments(SearchOptions, total=False):
    """Arguments of every search of the store.

    Attributes:
        filter: Text in the filter dialect over the table's columns, such as ``"price < 10"``, or a dictionary over
            metadata, such as ``{"price": {"$lt": 10}}``.
        as_of: An instant of the timeline or a timestamp, to search what was visible then; by default now.
        max_distance: The largest distance to return, in the metric's unit.
        mode: As for `hudi_vector.search`.
        recall_target: As for `hudi_vector.search`.
    """

    filter: str | Mapping[str, Any] | None
    as_of: Any
    max_distance: float | None
    mode: str | None
    recall_target: float | None


class HudiVectorStore(VectorStore):  # type: ignore[misc]
    """A vector store of LangChain over one Hudi table.

    Each `add_documents`, `add_texts` and `delete` is one commit of Hudi, which takes seconds whatever its size: give
    all documents in one call. Searches start no Spark job. Threads may share the store, and the async methods run in
    LangChain's threads.

    Example:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> store = HudiVectorStore("/tmp/notes", DeterministicFakeEmbedding(size=4), spark=spark)
        >>> store.add_texts(["a pen", "a cup"], [{"price": 2}, {"price": 5}], ids=["pen", "cup"])
        ['pen', 'cup']
        >>> [found.id for found in store.similarity_search("a cup", k=1, filter={"price": {"$gt": 2}})]
        ['cup']
    """

    @known_arguments(TableOptions)
    def __init__(self, table: str | os.PathLike[str], embedding: Embeddings, **options: Unpack[TableOptions]) -> None:
        """Open the table, which the first write makes if it is not there.

        Args:
            table: The base path of the table.
            embedding: What makes vectors of texts.
            options: The session that writes, names and types of columns, the metric …: see `TableOptions`.

        Raises:
            TableNotFoundError: There is no table, and ``create`` is False.
            InvalidArgumentError: An argument is not allowed, or contradicts the table.
        """
        if not isinstance(embedding, Embeddings):
            raise InvalidTypeError(f"embedding must be an Embeddings of LangChain, not {kind_of(embedding)}")
        self._embedding = embedding
        self._table = DocumentTable(table, **options)

    @property
    def embeddings(self) -> Embeddings:
        """Return what makes vectors of texts."""
        return self._embedding

    def add_documents(self, documents: Sequence[Document], **options: Any) -> list[str]:
        """Embed documents and write them by one commit; those whose id is there already replace the old ones.

        Args:
            documents: The documents.
            options: ``ids``, in place of the documents' own.

        Returns:
            The ids, in the order of the documents.

        Raises:
            InvalidTypeError: They are no list of LangChain's documents; or as for `add_texts`.

        Example:
            >>> from langchain_core.documents import Document
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/documents", DeterministicFakeEmbedding(size=4), spark=spark)
            >>> store.add_documents([Document(id="1", page_content="a pen")])
            ['1']
        """
        listed = as_list(documents, "documents", "of LangChain's documents")
        for one in listed:
            if not isinstance(one, Document):
                raise InvalidTypeError(f"documents must be LangChain's documents, and one is {kind_of(one)}")
        found: list[str] = super().add_documents(listed, **options)
        return found

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **none: Any,
    ) -> list[str]:
        """Embed texts and write them by one commit; texts whose id is there already replace the old ones.

        Args:
            texts: The texts.
            metadatas: The metadata of each.
            ids: The id of each; None for a new one.
            none: No more arguments are taken.

        Returns:
            The ids, in the order of the texts.

        Raises:
            InvalidArgumentError: The lists have different lengths, or an id occurs twice.
            InvalidTypeError: Metadata does not fit its column, JSON cannot hold it, or an argument is no list.
            DimensionMismatchError: The vectors are of another length than the table's.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/added", DeterministicFakeEmbedding(size=4), spark=spark)
            >>> store.add_texts(["a pen"], ids=["1"])
            ['1']
        """
        if none:
            raise InvalidTypeError(
                f"add_texts has no argument '{next(iter(none))}'; its arguments are ids, metadatas, texts"
            )
        listed = _texts(texts)
        details = _as_many("metadatas", metadatas, len(listed), {})
        named = [one or str(uuid.uuid4()) for one in _as_many("ids", ids, len(listed), None)]
        vectors = _embedded(self._embedding, listed)
        self._table.write(
            [
                Stored(key, text, {} if detail is None else detail, vector)
                for key, text, detail, vector in zip(named, listed, details, vectors, strict=True)
            ]
        )
        return named

    def delete(self, ids: Sequence[str] | None = None, **none: Any) -> bool:
        """Delete documents by one commit; unknown ids are ignored.

        Args:
            ids: The ids; None deletes all documents. Older instants still have them, until Hudi cleans.
            none: No more arguments are taken.

        Returns:
            True.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/deleted", DeterministicFakeEmbedding(size=4), spark=spark)
            >>> store.delete(["unknown"])
            True
        """
        if none:
            raise InvalidTypeError(f"delete has no argument '{next(iter(none))}'; its argument is ids")
        self._table.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents in the order of their ids, without those that the table does not have.

        Args:
            ids: The ids.

        Returns:
            The documents.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/got", DeterministicFakeEmbedding(size=4), spark=spark)
            >>> store.get_by_ids(["unknown"])
            []
        """
        return [_document(each) for each in self._table.get(ids)]

    @known_arguments(SearchArguments)
    def similarity_search(self, query: str, k: int = 4, **options: Unpack[SearchArguments]) -> list[Document]:
        """Return the k documents nearest to a text, the nearest first.

        Args:
            query: The text.
            k: The number of documents.
            options: ``filter``, ``as_of`` and others: see `SearchArguments`.

        Returns:
            The documents.

        Raises:
            InvalidFilterError: The filter is none, or compares a column with a value of another type.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/nothing", DeterministicFakeEmbedding(size=4), spark=spark)
            >>> store.similarity_search("a pen", k=2)
            []
        """
        return [found for found, _ in self.similarity_search_with_score(query, k, **options)]

    @known_arguments(SearchArguments)
    def similarity_search_by_vector(
        self, embedding: Sequence[float], k: int = 4, **options: Unpack[SearchArguments]
    ) -> list[Document]:
        """Return the k documents nearest to a vector, the nearest first.

        Args:
            embedding: The vector.
            k: The number of documents.
            options: As for `similarity_search`.

        Returns:
            The documents.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/nothing", DeterministicFakeEmbedding(size=2), spark=spark)
            >>> store.similarity_search_by_vector([0.1, 0.2])
            []
        """
        return [_document(each) for each in self._search(embedding, k, **options)]

    @known_arguments(SearchArguments)
    def similarity_search_with_score(
        self, query: str, k: int = 4, **options: Unpack[SearchArguments]
    ) -> list[tuple[Document, float]]:
        """Return the k documents nearest to a text with their distances, of which less is nearer.

        Args:
            query: The text.
            k: The number of documents.
            options: As for `similarity_search`.

        Returns:
            Pairs of a document and its distance, in the metric's unit.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/nothing", DeterministicFakeEmbedding(size=4), spark=spark)
            >>> store.similarity_search_with_score("a pen")
            []
        """
        as_k(k)
        found = self._search(self._embedding.embed_query(_query(query)), k, **options)
        return [(_document(each), each.distance) for each in found]

    @known_arguments(SearchArguments)
    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchArguments],
    ) -> list[Document]:
        """Return k documents that are near to a text and unlike each other.

        Args:
            query: The text.
            k: The number of documents.
            fetch_k: The number of nearest documents among which they are chosen.
            lambda_mult: 1 for the nearest, 0 for the most unlike.
            options: As for `similarity_search`.

        Returns:
            The documents, in the order in which they were chosen.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/nothing", DeterministicFakeEmbedding(size=4), spark=spark)
            >>> store.max_marginal_relevance_search("a pen", k=2)
            []
        """
        _require_marginal(k, fetch_k, lambda_mult)
        vector = self._embedding.embed_query(_query(query))
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **options)

    @known_arguments(SearchArguments)
    def max_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchArguments],
    ) -> list[Document]:
        """Return k documents that are near to a vector and unlike each other.

        Args:
            embedding: The vector.
            k: As for `max_marginal_relevance_search`.
            fetch_k: As for `max_marginal_relevance_search`.
            lambda_mult: As for `max_marginal_relevance_search`.
            options: As for `similarity_search`.

        Returns:
            The documents, in the order in which they were chosen.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore("/tmp/nothing", DeterministicFakeEmbedding(size=2), spark=spark)
            >>> store.max_marginal_relevance_search_by_vector([0.1, 0.2])
            []
        """
        _require_marginal(k, fetch_k, lambda_mult)
        found = self._search(embedding, max(k, fetch_k), vectors=True, **options)
        if not found:
            return []
        vectors = [np.asarray(each.vector, np.float64) for each in found]
        chosen = maximal_marginal_relevance(np.asarray(embedding, np.float64), vectors, lambda_mult, k)
        return [_document(found[number]) for number in chosen]

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        table: str | os.PathLike[str] | None = None,
        **options: Unpack[TableOptions],
    ) -> HudiVectorStore:
        """Open a table and add texts to it.

        Args:
            texts: As for `add_texts`.
            embedding: What makes vectors of texts.
            metadatas: As for `add_texts`.
            ids: As for `add_texts`.
            table: The base path of the table.
            options: As for the class.

        Returns:
            The store.

        Example:
            >>> from langchain_core.embeddings import DeterministicFakeEmbedding
            >>> store = HudiVectorStore.from_texts(
            ...     ["a pen"], DeterministicFakeEmbedding(size=4), ids=["1"], table="/tmp/pens", spark=spark
            ... )
            >>> [found.page_content for found in store.get_by_ids(["1"])]
            ['a pen']
        """
        if table is None:
            raise InvalidArgumentError("table is missing; give the base path of the Hudi table")
        store = cls(table, embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def _search(self, vector: Any, k: int, vectors: bool = False, **options: Any) -> list[Stored]:
        condition = _condition(options.pop("filter", None))
        return self._table.search(vector, k, filter=condition, vectors=vectors, **options)

    def _select_relevance_score_fn(self) -> Any:
        metric = self._table.metric
        if metric == "cosine":
            return self._cosine_relevance_score_fn
        if metric in ("l2", "hamming"):
            return _relevance
        raise InvalidArgumentError(
            f"distances by {metric} have no relevance from 0 to 1; use similarity_search_with_score, or cosine"
        )


def _relevance(distance: float) -> float:
    """Return 1 for the distance 0, and less the further away, down to 0."""
    return 1.0 / (1.0 + distance)


def _condition(given: Any) -> Filter:
    return given if given is None or isinstance(given, str) else MetadataFilter.of(given)


def _document(stored: Stored) -> Document:
    return Document(id=stored.id, page_content=stored.text or "", metadata=dict(stored.metadata))


def _texts(given: Any) -> list[str]:
    """Return texts as a list; raise InvalidTypeError if they are no list of texts."""
    listed = as_list(given, "texts", "of texts")
    for number, text in enumerate(listed):
        if not isinstance(text, str):
            raise InvalidTypeError(f"texts must be a list of texts, and texts[{number}] is {kind_of(text)}")
        require_unicode(text, f"texts[{number}]")
    return listed


def _query(given: Any) -> str:
    if not isinstance(given, str):
        raise InvalidTypeError(f"query must be a text, not {kind_of(given)}")
    require_unicode(given, "query")
    return given


def _embedded(embedding: Embeddings, texts: list[str]) -> list[list[float]]:
    """Return a vector for each text; raise InvalidArgumentError if the embedding gives more or fewer."""
    vectors: list[list[float]] = embedding.embed_documents(texts) if texts else []
    if len(vectors) != len(texts):
        raise InvalidArgumentError(
            f"the embedding {kind_of(embedding)} gave {number_of(len(vectors), 'vector')} for "
            f"{number_of(len(texts), 'text')}; it must give one for each"
        )
    return vectors


def _require_marginal(k: Any, fetch_k: Any, lambda_mult: Any) -> None:
    """Raise InvalidArgumentError if a number of a search for documents unlike each other is not allowed."""
    as_k(k)
    as_k(fetch_k, "fetch_k")
    is_number = isinstance(lambda_mult, (int, float, np.integer, np.floating)) and not isinstance(lambda_mult, bool)
    if not is_number or not 0 <= lambda_mult <= 1:
        raise InvalidArgumentError(f"lambda_mult must be a number from 0 to 1, not {lambda_mult!r}")


def _as_many(name: str, given: Sequence[Any] | None, wanted: int, otherwise: Any) -> list[Any]:
    """Return one value for each text; raise InvalidArgumentError if there are more or fewer."""
    listed = [otherwise] * wanted if given is None else as_list(given, name, "with one value for each text")
    if len(listed) != wanted:
        raise InvalidArgumentError(
            f"{name} has {number_of(len(listed), 'value')} for {number_of(wanted, 'text')}; give one for each"
        )
    return listed
