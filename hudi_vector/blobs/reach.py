"""The rule about which files a table's references may name: whoever wrote the rows may not be trusted by their reader.

Every reader of blobs asks here before it looks at a file. There are two rules, both applied to the path after symbolic
links are resolved. A table on an object store may not name files of the reading machine. If `hoodie.blob.read.allowed`
lists places, a file must lie below one of them or below the table.
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
    """The rule about which files the references of one table may name.

    Attributes:
        options: Hadoop's storage settings; they hold `hoodie.blob.read.allowed`.
        table: The base path of the table that holds the references; None if not known.
        from_remote: Whether references may come from an object store; used only if the table is not known.
    """

    options: StorageOptions
    table: str | None = None
    from_remote: bool = False

    def refusal(self, uri: str) -> str | None:
        """Return why a file must not be read, as the end of "… cannot be read: …", or None if it may be read.

        `uri` is the file, as `hudi_vector.blobs.paths.file_uri` spells it.

        Example:
            >>> Reach(StorageOptions(), "s3://lake/t").refusal("file:///etc/passwd")[:45]
            'it names a file of this machine, and the tabl'
            >>> Reach(StorageOptions(), "s3://lake/t").refusal("s3://lake/t/.hoodie/blobs/x")
        """
        if self._places is None:
            if self._is_remote and scheme_of(uri) == "file":
                return (
                    "it names a file of this machine, and the table that refers to it is on an object store; "
                    f"list the places whose files may be read in {_KEY}"
                )
            return None
        found = _resolved(uri)
        if any(found == place or found.startswith(f"{place}/") for place in self._places):
            return None
        return f"it is in none of the places that {_KEY} lists; add its place if the files there may be read"

    def opened(self, uri: str) -> str:
        """Return the URI to open for a file: if places are listed, the resolved URI that was checked against them."""
        return uri if self._places is None else _resolved(uri)

    @property
    def _is_remote(self) -> bool:
        return self.from_remote if self.table is None else scheme_of(self.table) != "file"

    @cached_property
    def _places(self) -> tuple[str, ...] | None:
        """Return the resolved places whose files may be read, including the table; None if all files may be read."""
        given = parse_names(self.options.get(_KEY) or "")
        if not given:
            return None
        return tuple(_resolved(normalise(place)) for place in (*given, *([self.table] if self.table else [])))


def _resolved(uri: str) -> str:
    """Return a URI without a trailing slash, with the symbolic links of a local path resolved."""
    if not uri.startswith(_LOCAL):
        return uri.rstrip("/")
    try:
        return _LOCAL + os.path.realpath(uri.removeprefix(_LOCAL)).rstrip("/")
    except (OSError, ValueError):  # a loop of links or a NUL in the path: there is no such file
        return uri
