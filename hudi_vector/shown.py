"""Results as people look at them: a short text, a table in a notebook, rows, and a DataFrame of pandas."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, cast, overload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Listed", "Shown", "ShownText", "as_tree", "cell"]

T = TypeVar("T")

_MOST_ROWS, _MOST_TEXT = 10, 40
_BRANCH, _LAST, _STEM, _GAP = "├─ ", "└─ ", "│  ", "   "


class Shown:
    """A result with a short text, rows and a DataFrame of pandas; notebooks show it as a table.

    A subclass that holds several things of one kind overrides `rows`; one that has a few sentences for people overrides
    `lines`. Dataclasses need ``repr=False`` to have the text of this class.
    """

    def rows(self) -> list[dict[str, Any]]:
        """Return the result as one row, with a value for each field."""
        return [{field.name: getattr(self, field.name) for field in fields(cast("Any", self))}]

    def lines(self) -> Iterator[str]:
        """Yield the result as a few lines for people: the fields that hold something."""
        held = {name: cell(value) for name, value in Shown.rows(self)[0].items() if value not in (None, (), [], {}, "")}
        width = max(map(len, held), default=0)
        yield from (f"{name.ljust(width)}  {value}" for name, value in held.items())

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame of pandas."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __repr__(self) -> str:
        return "\n".join([type(self).__name__, *(f"  {line}" for line in [*self.lines(), *_grid(self._listed())])])

    def _repr_html_(self) -> str:
        said = "<br>".join(html.escape(line) for line in self.lines())
        return f"<p><b>{type(self).__name__}</b><br>{said}</p>{_html_table(self._listed())}"

    def _listed(self) -> list[dict[str, Any]]:
        """Return the rows of a result that holds several things; its lines say all of any other."""
        return [] if type(self).rows is Shown.rows else self.rows()


class Listed(list[T]):
    """A list of results, shown as a table with a row for each; texts are shown as a list, since a table would cut them.

    Example:
        >>> Listed([])
        []
    """

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each result."""
        return [row for each in self for row in (each.rows() if isinstance(each, Shown) else [{"value": each}])]

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame of pandas."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    @overload
    def __getitem__(self, place: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Listed[T]: ...
    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return Listed(found) if isinstance(place, slice) else found

    def __repr__(self) -> str:
        if all(isinstance(each, str) for each in self):
            return super().__repr__()
        return "\n".join(_grid(self.rows()))

    def _repr_html_(self) -> str:
        return _html_table(self.rows()) or "<p>nothing</p>"


class ShownText(str):
    r"""A text of several lines that is shown as it is, where a string would be shown with its line ends escaped.

    Example:
        >>> ShownText("index\n  none")
        index
          none
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def as_tree(text: str) -> str:
    r"""Return a text whose lines are indented by two blanks for each level as a tree.

    Example:
        >>> print(as_tree("search\n  slices\n    parquet\n  bytes"))
        search
        ├─ slices
        │  └─ parquet
        └─ bytes
    """
    lines = [(len(line) - len(line.lstrip(" ")), line) for line in text.split("\n")]
    levels = [blanks // 2 for blanks, _ in lines]
    shown, goes_on = [], set[int]()  # the levels at which a later line has the same parent
    for (blanks, line), level in zip(reversed(lines), reversed(levels), strict=True):
        stems = "".join(_STEM if above in goes_on else _GAP for above in range(1, level))
        own = "" if level == 0 else _BRANCH if level in goes_on else _LAST
        shown.append(stems + own + line[blanks:])
        goes_on = {above for above in goes_on if above < level} | {level}
    return "\n".join(reversed(shown))


def cell(value: Any) -> str:
    """Return a value as the text of a cell of a table: short, and in one line.

    Example:
        >>> cell(0.123456789), cell([1, 2, 3, 4]), cell(None)
        ('0.123457', '[1, … 4 values]', '')
    """
    if value is None:
        return ""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value) > 3:
        return f"[{cell(value[0])}, … {len(value)} values]"
    text = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def _cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return the names of the columns, and the cells of the first rows."""
    names = list(rows[0]) if rows else []
    return [names, *([cell(row.get(name)) for name in names] for row in rows[:_MOST_ROWS])] if names else []


def _grid(rows: list[dict[str, Any]]) -> list[str]:
    """Return the first rows as lines of a table."""
    cells = _cells(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in cells]
    return [*lines, "…"] if len(rows) > _MOST_ROWS else lines


def _html_table(rows: list[dict[str, Any]]) -> str:
    """Return the first rows as a table of HTML; empty for none."""
    cells = [[html.escape(text) for text in row] for row in _cells(rows)]
    if not cells:
        return ""
    head = "".join(f"<th>{text}</th>" for text in cells[0])
    body = "".join("<tr>" + "".join(f"<td>{text}</td>" for text in row) + "</tr>" for row in cells[1:])
    more = f"<p>… {len(rows)} rows</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
