"""Which files the references of a table may name: what lies in rows was written by others than those who read it.

Every reader of blobs asks here before it looks at a file. Two rules hold, each for the place that a path leads to in
the end: a table on an object store names no file of the machine that reads it, and where `hoodie.blob.read.allowed`
lists places, files lie below one of these, or below the table itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

from hudi_vector.options import ALLOWED_BLOBS, parse_names
from hudi_vector.storage import StorageOptions, normalise, scheme_of

__all__ = ["Reach"]

_LOCAL = "file://"
_KEY = ALLOWED_BLOBS.key


@dataclass(frozen=True)
class Reach:
    """The files that references may name.

    Attributes:
        options: The settings of storage, which the setting of this rule travels with.
        table: The base path of the table that holds the references; None where it is not known.
        from_remote: Whether the references come from object stores, where the table is not known.
    """

    options: StorageOptions
    table: str | None = None
    from_remote: bool = False

    def refusal(self, uri: str) -> str | None:
        """Return why a file must not be read, as the end of "… cannot be read: …", or None.

        Args:
            uri: The file, as `hudi_vector.blobs.paths.file_uri` spells it.

        Example:
            >>> Reach(StorageOptions(), "s3://lake/t").refusal("file:///etc/passwd")[:45]
            'it names a file of this machine, and the tabl'
            >>> Reach(StorageOptions(), "s3://lake/t").refusal("s3://lake/t/.hoodie/blobs/x")
        """
        if self._places is None:
            if self._is_remote and scheme_of(uri) == "file":
                return (
                    "it names a file of this machine, and the table that says so lies on an object store; "
                    f"list the places whose files may be read in {_KEY}"
                )
            return None
        found = _resolved(uri)
        if any(found == place or found.startswith(f"{place}/") for place in self._places):
            return None
        return f"it lies in no place that {_KEY} lists; add the one it lies in, if its files may be read"

    def opened(self, uri: str) -> str:
        """Return what is opened for a file: where places are listed the one that was compared with them, not a link."""
        return uri if self._places is None else _resolved(uri)

    @property
    def _is_remote(self) -> bool:
        return self.from_remote if self.table is None else scheme_of(self.table) != "file"

    @cached_property
    def _places(self) -> tuple[str, ...] | None:
        """The places whose files may be read, None for any."""
        given = parse_names(self.options.get(_KEY) or "")
        if not given:
            return None
        return tuple(_resolved(normalise(place)) for place in (*given, *([self.table] if self.table else [])))


def _resolved(uri: str) -> str:
    """The place that a URI leads to in the end: links of a local path are followed."""
    if not uri.startswith(_LOCAL):
        return uri.rstrip("/")
    try:
        return _LOCAL + os.path.realpath(uri.removeprefix(_LOCAL)).rstrip("/")
    except (OSError, ValueError):  # a loop, or a NUL in the path: no file at all
        return uri
