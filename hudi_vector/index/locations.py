"""The locations of a column's indexes: in the table's ``.hoodie``, or in a directory that the caller names.

In such a directory, an index of files outside a table is identified by the SHA-256 of the sorted files, the column and
the parameters. Lists of files with a common folder share models and segments, so that a changed list needs only
segments for its new files.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.files import indexes_folder
from hudi_vector.storage import FileInfo, StorageOptions, join, normalise, open_storage

__all__ = ["IndexHome", "IndexPlace", "columns_at", "in_directory", "in_table", "of_files"]

_VERSION = "v1"
_DIGITS = 16


@dataclass(frozen=True)
class IndexPlace:
    """The location of one index.

    `base` is the URI that base file paths are relative to, empty if they are full URIs. `folder` holds models and
    segments. `key` identifies the list of files that its manifests describe, and is empty for a table.
    """

    base: str
    folder: str
    key: str = ""

    @property
    def metric(self) -> str:
        """Return the index's metric, by the folder's name."""
        return posixpath.basename(self.folder).partition("-")[0]

    @property
    def kind(self) -> str:
        """Return the index's kind, by the folder's name."""
        return posixpath.basename(self.folder).partition("-")[2].partition("-")[0]


@dataclass(frozen=True)
class IndexHome:
    """The location of a column's indexes: `root` has a folder per column, with a folder per index."""

    root: str
    base: str
    column: str
    files: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Return the column's folder."""
        return join(self.root, quote(self.column, safe=""))

    def place(self, metric: str, kind: str, parameters: Mapping[str, Any]) -> IndexPlace:
        """Return the location of an index, whether or not it exists.

        `parameters` are its further settings. They are part of the location only for files outside a table: a table has
        one index per metric and kind.
        """
        name = f"{metric}-{kind}"
        if self.files:
            text = json.dumps(sorted((key, value) for key, value in parameters.items() if value is not None))
            name += f"-{_digest(text)}"
        return self._place(name)

    def places(self, options: StorageOptions, below: Sequence[FileInfo] | None = None) -> list[IndexPlace]:
        """Return the locations where the column may have indexes, ordered by name.

        `below` are all files below `folder`, if they have been listed.
        """
        if below is None:
            names = set(open_storage(self.root, options).list_folders(self.folder))
        else:
            inside = (info.uri.removeprefix(f"{self.folder}/").partition("/") for info in below)
            names = {name for name, has_more, _ in inside if has_more}
        return [self._place(name) for name in sorted(names)]

    def _place(self, name: str) -> IndexPlace:
        key = hashlib.sha256("\n".join([*self.files, self.column, name]).encode()).hexdigest() if self.files else ""
        return IndexPlace(self.base, join(self.folder, name), key)


def in_table(table_uri: str, column: str) -> IndexHome:
    """Return the home of a table's own indexes; the column is spelled as in the table.

    Example:
        >>> in_table("file:///t", "emb").folder
        'file:///t/.hoodie/vector_index/v1/emb'
    """
    return IndexHome(indexes_folder(table_uri), table_uri, column)


def in_directory(directory: str, table_uri: str, column: str) -> IndexHome:
    """Return the home of a table's indexes in another directory (a path or URI)."""
    return IndexHome(join(normalise(directory), _VERSION, "tables", _named(table_uri)), table_uri, column)


def of_files(directory: str, files: Iterable[str], column: str) -> IndexHome:
    """Return the home, in a directory (a path or URI), of the indexes of files that belong to no table.

    The files are normalised URIs. Raises InvalidArgumentError if there are none.
    """
    listed = tuple(sorted(set(files)))
    if not listed:
        raise InvalidArgumentError("there are no files, and nothing to make an index of")
    together = posixpath.commonpath([posixpath.dirname(uri) for uri in listed])
    return IndexHome(join(normalise(directory), _VERSION, "files", _named(together)), "", column, listed)


def columns_at(root: str, options: StorageOptions) -> list[str]:
    """Return the columns that have a folder in a home's root, sorted."""
    return sorted(unquote(name) for name in open_storage(root, options).list_folders(root))


def _named(uri: str) -> str:
    """Return a unique folder name for a URI that people can recognise."""
    return f"{quote(posixpath.basename(uri), safe='')[:40]}-{_digest(uri)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
