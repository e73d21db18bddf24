"""Conversion of the paths of blob references to URIs of this package.

A path is a URI (``s3a://bucket/key``, ``file:///x``), an absolute path, or a path relative to the table. As in Hadoop's
Path nothing is escaped: ``%20`` is three characters of a name, and a blank is written as a blank.
"""

from __future__ import annotations

import posixpath

from hudi_vector.errors import InvalidBlobError
from hudi_vector.storage import join, normalise, scheme_of

__all__ = ["file_uri"]


def file_uri(path: str, table: str | None) -> str:
    """Return the URI of a reference's `external_path`, as `hudi_vector.storage.normalise` spells it.

    `table` is the base path of the table that holds the reference, for relative paths; None if there is no table.
    Raises InvalidBlobError if the path is empty, contains NUL, is relative without a table, or leads out of its root
    with ``..``.

    Example:
        >>> file_uri("s3a://lake/videos//a b%20.mp4", None), file_uri(".hoodie/blobs/x", "/tables/t")
        ('s3://lake/videos/a b%20.mp4', 'file:///tables/t/.hoodie/blobs/x')
    """
    if not path:
        raise InvalidBlobError("a blob's reference has an empty path")
    if "\0" in path:
        raise InvalidBlobError(f"the blob's path {path!r} holds a NUL, which no name of a file does")
    begin, inside = _parts(path)
    if ".." in inside and posixpath.normpath(inside.lstrip("/")).split("/", 1)[0] == "..":
        raise InvalidBlobError(f"the blob's path '{path}' climbs out of {begin or 'its table'} with '..'")
    if begin:
        return normalise(path)
    if table is None:
        raise InvalidBlobError(
            f"the blob's path '{path}' is relative, and there is no table whose base path it could start from; "
            "name the table, or give an absolute path or a URI"
        )
    return normalise(join(normalise(table), inside))


def _parts(path: str) -> tuple[str, str]:
    """Return the root of a path ("" for a relative path) and the path below that root."""
    if path.startswith("/"):
        return "the root", path
    scheme = scheme_of(path)
    if scheme == "file":
        inside = path[len("file:") :] if path.lower().startswith("file:") else path
        return ("the root", inside) if inside.startswith("/") else ("", inside)
    bucket, _, inside = path.partition("://")[2].partition("/")
    return f"{scheme}://{bucket}", inside
