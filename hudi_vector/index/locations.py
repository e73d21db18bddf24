"""Where the indexes of a column lie: beside their table, or in a directory that the caller names.

In a directory, an index of files that are no table's is named by what it is asked for with: the SHA-256 of the sorted
files, the column and the parameters. Lists of files that lie together share models and segments, so that a list that
gained or lost some files needs only the new ones' segments.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.files import indexes_folder
from hudi_vector.storage import StorageOptions, join, normalise, open_storage

__all__ = ["IndexHome", "IndexPlace", "beside_table", "columns_at", "in_directory", "of_files"]

_VERSION = "v1"
_DIGITS = 16


@dataclass(frozen=True)
class IndexPlace:
    """Where one index lies.

    `base` is what its base files are named from, empty where they are named in full; `folder` holds models and
    segments, and `key` names the list of files in it that its manifests are of: none for a table.
    """

    base: str
    folder: str
    key: str = ""


@dataclass(frozen=True)
class IndexHome:
    """What holds the indexes of one column: `root`, with a folder for each column, and in it one for each index."""

    root: str
    base: str
    column: str
    files: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The column's folder."""
        return join(self.root, quote(self.column, safe=""))

    def place(self, metric: str, kind: str, parameters: Mapping[str, Any]) -> IndexPlace:
        """Where an index lies, or would lie.

        Args:
            metric: Its metric.
            kind: Its kind.
            parameters: What else its models and segments are made with; of a table there is one whatever they are.
        """
        name = f"{metric}-{kind}"
        if self.files:
            text = json.dumps(sorted((key, value) for key, value in parameters.items() if value is not None))
            name += f"-{_digest(text)}"
        return self._place(name)

    def places(self, options: StorageOptions) -> list[IndexPlace]:
        """Where indexes of the column may lie, by name.

        Args:
            options: How the storage is opened.
        """
        return [self._place(name) for name in sorted(open_storage(self.root, options).list_folders(self.folder))]

    def _place(self, name: str) -> IndexPlace:
        key = hashlib.sha256("\n".join([*self.files, self.column, name]).encode()).hexdigest() if self.files else ""
        return IndexPlace(self.base, join(self.folder, name), key)


def beside_table(table_uri: str, column: str) -> IndexHome:
    """The home of a table's own indexes.

    Args:
        table_uri: The table, a normalised URI.
        column: The column, as the table spells it.

    Example:
        >>> beside_table("file:///t", "emb").folder
        'file:///t/.hoodie/vector_index/v1/emb'
    """
    return IndexHome(indexes_folder(table_uri), table_uri, column)


def in_directory(directory: str, table_uri: str, column: str) -> IndexHome:
    """The home of a table's indexes in another directory.

    Args:
        directory: The directory, a path or URI.
        table_uri: The table, a normalised URI.
        column: The column, as the table spells it.
    """
    return IndexHome(join(normalise(directory), _VERSION, "tables", _named(table_uri)), table_uri, column)


def of_files(directory: str, files: Iterable[str], column: str) -> IndexHome:
    """The home of the indexes of files that are no table's.

    Args:
        directory: The directory, a path or URI.
        files: The files, normalised URIs, at least one.
        column: The column, as the files spell it.

    Raises:
        InvalidArgumentError: There is no file.
    """
    listed = tuple(sorted(set(files)))
    if not listed:
        raise InvalidArgumentError("there are no files, and nothing to make an index of")
    together = posixpath.commonpath([posixpath.dirname(uri) for uri in listed])
    return IndexHome(join(normalise(directory), _VERSION, "files", _named(together)), "", column, listed)


def columns_at(root: str, options: StorageOptions) -> list[str]:
    """The columns that have a folder in a home's root.

    Args:
        root: The root.
        options: How the storage is opened.
    """
    return sorted(unquote(name) for name in open_storage(root, options).list_folders(root))


def _named(uri: str) -> str:
    """A name for what lies at a URI that people recognise and nothing else has."""
    return f"{quote(posixpath.basename(uri), safe='')[:40]}-{_digest(uri)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
