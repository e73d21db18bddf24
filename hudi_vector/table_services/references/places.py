"""One identity for one file, however a reference spells its path: schemes that mean the same, dots, links."""

from __future__ import annotations

import os
import posixpath

from hudi_vector.blobs.paths import file_uri
from hudi_vector.storage import normalise, root_of, scheme_of

__all__ = ["Places"]

_LOCAL = "file://"


class Places:
    """The identities of files; links are resolved once, so one is made for each mark.

    Example:
        >>> Places().identities("s3a://b/x", "s3://b/t"), Places().identities(".hoodie/blobs/x", "s3://b/t")
        (('s3://b/x',), ('s3://b/t/.hoodie/blobs/x',))
    """

    def __init__(self) -> None:
        """No folder is resolved yet."""
        self._folders: dict[str, str] = {}

    def identity(self, uri: str) -> str:
        """The one name of a file.

        Args:
            uri: The file, as `hudi_vector.storage.normalise` spells it.

        Returns:
            The URI, on a local disk with every link resolved.
        """
        if not uri.startswith(_LOCAL):
            return uri
        folder, name = posixpath.split(uri[len(_LOCAL) :])
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder).rstrip("/")
        path = f"{real}/{name}"
        return _LOCAL + (os.path.realpath(path) if os.path.islink(path) else path)

    def identities(self, path: str, table: str) -> tuple[str, ...]:
        """The names of the file that a reference means; readers differ in whether a link or ``..`` comes first.

        Args:
            path: The path as it stands in the row.
            table: The base path of the row's table, normalised.

        Returns:
            One name, or two.

        Raises:
            InvalidBlobError: The path is empty or climbs out of where it begins.
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
        """Whether two identities are one file after all.

        Args:
            uri: A file.
            other: Another one, of the same file name.

        Returns:
            False for two paths on one file system, unless a local one shows the same file at both; None where only
            the storage system knows: another scheme or authority may be a mount, a service's name or an access point.
        """
        if scheme_of(uri) == scheme_of(other) == "file":
            try:
                return os.path.samefile(uri[len(_LOCAL) :], other[len(_LOCAL) :])
            except OSError:
                return False  # one of them is gone
        return False if _authority(uri) == _authority(other) else None


def _authority(uri: str) -> tuple[str, str]:
    return root_of(uri), uri.partition("://")[2].partition("/")[0]
