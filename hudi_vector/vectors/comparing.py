"""``hv.vectors.compare``: the same questions asked of two vector columns, and how their answers differ."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from hudi_vector.arguments import as_k, as_text, known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, number_of
from hudi_vector.options import Settings
from hudi_vector.query.opened.request import as_queries
from hudi_vector.query.opened.vector_table import open as open_table
from hudi_vector.shown import Shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CompareResult", "QueryComparison", "RankChange", "compare"]

_KEY, _QUERY = "_hoodie_record_key", "_hudi_query_index"


@dataclass(frozen=True, repr=False)
class RankChange(Shown):
    """A row that one of the two searches found.

    Attributes:
        key: The row's value of the key column.
        old_rank: Its rank in the old search, from 1; None if that did not find it.
        new_rank: Its rank in the new search, from 1; None if that did not find it.

    Example:
        >>> result = hv.vectors.compare(spark, "articles", "old", "old", [[1, 2]], [[1, 2]], k=1)
        >>> result.queries[0].ranks[0].old_rank
        1
    """

    key: Any
    old_rank: int | None
    new_rank: int | None


@dataclass(frozen=True, repr=False)
class QueryComparison(Shown):
    """The two answers to one question.

    Attributes:
        query: The number of the question, from 0.
        overlap: The share of the old search's rows that the new search found too, 0 to 1.
        entered: The rows that only the new search found.
        left: The rows that only the old search found.
        mean_rank_change: The mean distance between the two ranks of the rows that both found; None if there are none.
        old_recall: The share of the labelled rows that the old search found; None without labels for the question.
        new_recall: The same for the new search.
        ranks: The rows that either search found, by new rank, those that left behind them.

    Example:
        >>> result = hv.vectors.compare(spark, "articles", "old", "old", [[1, 2]], [[2, 1]])
        >>> result.queries[0].entered == result.queries[0].left
        True
    """

    query: int
    overlap: float
    entered: int
    left: int
    mean_rank_change: float | None
    old_recall: float | None
    new_recall: float | None
    ranks: tuple[RankChange, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each row of the table that either search found.

        Example:
            >>> result = hv.vectors.compare(spark, "articles", "old", "old", [[1, 2]], [[2, 1]], k=1)
            >>> list(result.queries[0].rows()[0])
            ['query', 'key', 'old_rank', 'new_rank']
        """
        return [{"query": self.query, **each.rows()[0]} for each in self.ranks]


@dataclass(frozen=True, repr=False)
class CompareResult(Shown):
    """The answers of two vector columns to the same questions.

    Attributes:
        table: The table.
        old: The old column.
        new: The new column.
        k: The rows of each search.
        queries: What became of each question.

    Example:
        >>> result = hv.vectors.compare(
        ...     spark, "articles", "old", "old", [[1, 2]], [[1, 2]], labels=[["0"]]
        ... )
        >>> result.overlap, result.old_recall == result.new_recall
        (1.0, True)
    """

    table: str
    old: str
    new: str
    k: int
    queries: tuple[QueryComparison, ...]

    @property
    def overlap(self) -> float:
        """Return the mean overlap of the questions."""
        return fmean(each.overlap for each in self.queries)

    @property
    def old_recall(self) -> float | None:
        """Return the mean recall of the old search over the questions with labels, None without labels."""
        return _mean([each.old_recall for each in self.queries])

    @property
    def new_recall(self) -> float | None:
        """Return the mean recall of the new search over the questions with labels, None without labels."""
        return _mean([each.new_recall for each in self.queries])

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each question.

        Example:
            >>> result = hv.vectors.compare(spark, "articles", "old", "old", [[1, 2]], [[2, 1]])
            >>> list(result.rows()[0])[:4]
            ['query', 'overlap', 'entered', 'left']
        """
        return [{key: value for key, value in Shown.rows(each)[0].items() if key != "ranks"} for each in self.queries]

    def lines(self) -> Iterator[str]:
        """Yield the means over all questions."""
        yield (
            f"'{self.old}' and '{self.new}' of '{self.table}': {number_of(len(self.queries), 'question')}, k = {self.k}"
        )
        yield f"mean overlap {self.overlap:.3f}"
        if self.old_recall is not None:
            yield f"mean recall against labels: {self.old_recall:.3f} old, {self.new_recall:.3f} new"


@known_arguments()
def compare(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str],
    old: str,
    new: str,
    old_queries: Any,
    new_queries: Any,
    k: int = 10,
    *,
    labels: Sequence[Sequence[Hashable]] | None = None,
    key: str = _KEY,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    as_of: Any = None,
) -> CompareResult:
    """Search two vector columns with the same questions, and show how the answers differ.

    Both searches are exact. Each question has a vector of the old model and one of the new model. Where others write
    meanwhile, `as_of` lets both searches see one state of the table.

    Args:
        spark: A registered session; `Settings` of `hudi_vector.options`, or None for the default settings, search
            without Spark, by the table's path.
        table: The name or path of a Hudi table.
        old: The old vector column.
        new: The new vector column.
        old_queries: The questions as vectors of the old model, an array of shape (questions, dimension).
        new_queries: The same questions, in the same order, as vectors of the new model.
        k: The number of rows of each search.
        labels: For each question the keys of the rows that are right; an empty list for a question without labels.
        key: The column whose values name rows, in `labels` and in the result; by default Hudi's record key, a text.
        metric: The metric of both searches.
        filter: A SQL condition over the table's columns for both searches.
        as_of: An instant or a timestamp, to search the table as it was then.

    Returns:
        The overlap, the changes of ranks and, with labels, the recall, of each question and in the mean.

    Raises:
        InvalidArgumentError: The numbers of questions or labels differ, or an argument is not allowed.
        UnknownColumnError: The table has no such column.
        UnsupportedTableError: Only Spark can read the table, and `spark` is no session.

    Example:
        >>> questions = {"old_queries": [[1, 2], [2, 1]], "new_queries": [[1, 3], [3, 1]]}
        >>> result = hv.vectors.compare(spark, "articles", "old", "old", **questions, k=5)
        >>> len(result.rows())
        2
    """
    k, name = as_k(k), as_text(key, "key")
    asked = [as_queries(old_queries), as_queries(new_queries)]
    count = len(asked[0])
    if not count or count != len(asked[1]):
        raise InvalidArgumentError(
            f"old_queries has {number_of(count, 'question')} and new_queries has {len(asked[1])}; give the same "
            "questions, one or "
            "more, to both"
        )
    right = _right(labels, count)
    search = {"k": k, "metric": metric, "filter": filter, "as_of": as_of}
    columns = [as_text(old, "old"), as_text(new, "new")]
    found = [
        _answers(spark, table, column, queries, name, search) for column, queries in zip(columns, asked, strict=True)
    ]
    compared = tuple(_compared(each, found[0][each], found[1][each], right[each]) for each in range(count))
    return CompareResult(str(table), columns[0], columns[1], k, compared)


def _right(labels: Any, count: int) -> list[frozenset[Hashable]]:
    """Return the right keys of each question, none for questions without labels."""
    if labels is None:
        return [frozenset()] * count
    if not _is_list(labels) or not all(_is_list(each) for each in labels):
        raise InvalidTypeError("labels is a list with a list of keys for each question, such as [['a', 'b'], []]")
    if len(labels) != count:
        raise InvalidArgumentError(
            f"labels has lists for {number_of(len(labels), 'question')}, and there are {count}; give {count}"
        )
    try:
        return [frozenset(each) for each in labels]
    except TypeError:
        raise InvalidTypeError("a label is a list or a mapping, which is no key; give texts or numbers") from None


def _is_list(value: Any) -> bool:
    return isinstance(value, (Sequence, set, frozenset, np.ndarray)) and not isinstance(value, (str, bytes))


def _answers(
    spark: SparkSession | Settings | None, table: Any, column: str, queries: Any, key: str, search: dict[str, Any]
) -> list[list[Any]]:
    """Return the keys of the rows found for each question, the nearest first."""
    if spark is None or isinstance(spark, Settings):
        settings = None if spark is None else spark.values
        with open_table(table, column=column, storage_options=settings, options=settings) as opened:
            hits = opened.search_batch(queries, columns=[key], mode="exact", **search)
        pairs = list(zip(hits[_QUERY].to_pylist(), hits[key].to_pylist(), strict=True))
    else:
        from hudi_vector.spark.search.api import search_batch

        rows = search_batch(spark, table, column, queries, columns=[_QUERY, key, "_rank"], mode="exact", **search)
        pairs = [(row[0], row[1]) for row in rows.orderBy(_QUERY, "_rank").collect()]
    found: list[list[Any]] = [[] for _ in range(len(queries))]
    for number, value in pairs:
        found[number].append(value)
    return found


def _compared(number: int, old: list[Any], new: list[Any], right: frozenset[Hashable]) -> QueryComparison:
    old_ranks = {key: rank for rank, key in reversed(list(enumerate(old, 1)))}
    new_ranks = {key: rank for rank, key in reversed(list(enumerate(new, 1)))}
    shared = old_ranks.keys() & new_ranks.keys()
    gone = sorted(old_ranks.keys() - shared, key=old_ranks.__getitem__)
    ranked = [*sorted(new_ranks, key=new_ranks.__getitem__), *gone]
    return QueryComparison(
        query=number,
        overlap=len(shared) / len(old_ranks) if old_ranks else float(not new_ranks),
        entered=len(new_ranks) - len(shared),
        left=len(gone),
        mean_rank_change=fmean(abs(old_ranks[key] - new_ranks[key]) for key in shared) if shared else None,
        old_recall=len(right & old_ranks.keys()) / len(right) if right else None,
        new_recall=len(right & new_ranks.keys()) / len(right) if right else None,
        ranks=tuple(RankChange(key, old_ranks.get(key), new_ranks.get(key)) for key in ranked),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    held = [value for value in values if value is not None]
    return fmean(held) if held else None
