"""One identity for each file, however a reference spells its path: equivalent schemes, dots and links."""

from __future__ import annotations

import os
import posixpath

from hudi_vector.blobs.paths import file_uri
from hudi_vector.storage import normalise, root_of, scheme_of

__all__ = ["Places"]

_LOCAL = "file://"


class Places:
    """The identities of files. Links are resolved once and cached, so each mark uses its own object.

    Example:
        >>> Places().identities("s3a://b/x", "s3://b/t"), Places().identities(".hoodie/blobs/x", "s3://b/t")
        (('s3://b/x',), ('s3://b/t/.hoodie/blobs/x',))
    """

    def __init__(self) -> None:
        """Start with an empty cache of resolved folders."""
        self._folders: dict[str, str] = {}

    def identity(self, uri: str) -> str:
        """Return the identity of a file: its normalised URI, with every link resolved on a local disk."""
        if not uri.startswith(_LOCAL):
            return uri
        folder, name = posixpath.split(uri[len(_LOCAL) :])
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder).rstrip("/")
        path = f"{real}/{name}"
        return _LOCAL + (os.path.realpath(path) if os.path.islink(path) else path)

    def home(self, folder: str) -> str:
        """Return how the identities of all files below a folder begin.

        Example:
            >>> Places().home("s3://b/t/")
            's3://b/t/'
        """
        return self.identity(f"{folder.rstrip('/')}/.").removesuffix(".")

    def identities(self, path: str, table: str) -> tuple[str, ...]:
        """Return the one or two identities of the file that a reference means.

        There are two for a local path with both ``..`` and links, since readers differ in which they resolve first.
        `path` is as in the row; `table` is the normalised base path of the row's table. Raise InvalidBlobError if the
        path is empty or leads above the folder where it begins.
        """
        uri = self.identity(file_uri(path, table))
        if ".." not in path or not uri.startswith(_LOCAL):
            return (uri,)
        plain = path[len("file:") :] if path.lower().startswith("file:") else path
        if not plain.startswith("/"):
            plain = f"{table[len(_LOCAL) :]}/{plain}"
        return tuple(dict.fromkeys([uri, self.identity(normalise(os.path.realpath(plain)))]))

    @staticmethod
    def is_same(uri: str, other: str) -> bool | None:
        """Return whether two identities with the same file name are one file, or None if that is unknown.

        Local paths are compared with `os.path.samefile`; they differ if one of the files is gone. Other URIs with the
        same scheme and authority are different files. Otherwise only the storage system knows: another scheme or
        authority may be a mount, a service name or an access point.
        """
        if scheme_of(uri) == scheme_of(other) == "file":
            try:
                return os.path.samefile(uri[len(_LOCAL) :], other[len(_LOCAL) :])
            except OSError:
                return False  # one of them is gone
        return False if _authority(uri) == _authority(other) else None


def _authority(uri: str) -> tuple[str, str]:
    return root_of(uri), uri.partition("://")[2].partition("/")[0]
