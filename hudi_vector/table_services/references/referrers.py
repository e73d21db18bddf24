"""The referrers of blob files: the references of all retained files, grouped by the file that they name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow.compute as pc

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.names import is_container_name
from hudi_vector.errors import InvalidBlobError
from hudi_vector.table_services.references.files import FileReferences
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.retention.retained import RetainedFile

__all__ = ["Referrer", "Referrers"]

_PATHS_HELD = 1 << 18


@dataclass(frozen=True)
class Referrer:
    """The number of retained files that refer to a blob file, and the newest of them."""

    files: int
    newest: RetainedFile

    def joined(self, file: RetainedFile) -> Referrer:
        """Return this with one more file."""
        newest = max(self.newest, file, key=lambda each: (each.instant, each.info.uri))
        return Referrer(self.files + 1, newest)


class Referrers:
    """The files that references name, each with its referrers.

    Args:
        area: The URIs under which the table's own files were listed, by their identities.
        places: Turns paths into identities.
    """

    def __init__(self, area: Mapping[str, str], places: Places) -> None:
        self._area = area
        self._places = places
        # The files of a file group repeat the same paths.
        self._identities = lru_cache(_PATHS_HELD)(places.identities)
        self._names: dict[str, list[str]] = {}
        for each in area:
            self._names.setdefault(posixpath.basename(each), []).append(each)
        self._of: dict[str, Referrer] = {}
        self._managed: dict[str, None] = {}
        self._doubts: dict[str, None] = {}
        self._elsewhere: dict[str, None] = {}

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Return the identities by which references name containers of the table at a place where it is not."""
        return tuple(self._elsewhere)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return sentences about the references whose file is uncertain."""
        return tuple(self._doubts)

    def add(self, found: FileReferences) -> None:
        """Take in the references of one file."""
        named = found.references
        managed = set(pc.unique(named["path"].filter(pc.fill_null(named["managed"], False))).to_pylist())
        seen: dict[str, bool] = {}
        for path in pc.unique(named["path"]).to_pylist():
            for uri in self.named(path, found.file):
                seen[uri] = seen.get(uri, False) or path in managed
        for uri, is_managed in seen.items():
            known = self._of.get(uri)
            self._of[uri] = Referrer(1, found.file) if known is None else known.joined(found.file)
            if is_managed and uri not in self._area:
                self._managed[uri] = None

    def named(self, path: str, file: RetainedFile) -> tuple[str, ...]:
        """Return the identities that a path in a file's rows has.

        There are one or two; none if the path is invalid, which is a doubt.
        """
        try:
            found = self._identities(path, file.table)
        except InvalidBlobError as problem:
            self._doubts[f"'{file.info.uri}' holds a reference that names no file: {problem}"] = None
            return ()
        return tuple(self._resolved(uri, path, file) for uri in found)

    def of(self, uri: str) -> Referrer | None:
        """Return the referrers of a file given by URI, or None if there are none."""
        return self._of.get(self._places.identity(uri))

    def below(self, folder: str) -> Iterator[tuple[str, Referrer]]:
        """Yield the referenced files whose identity begins with `folder`, ordered, with their referrers."""
        return ((uri, self._of[uri]) for uri in sorted(self._of) if uri.startswith(folder))

    def not_listed(self) -> Iterator[tuple[str, Referrer]]:
        """Yield the referenced files that are not in `area`, ordered, with their referrers."""
        return ((uri, self._of[uri]) for uri in sorted(self._of.keys() - self._area.keys()))

    def managed_outside(self) -> Iterable[tuple[str, Referrer]]:
        """Yield the files not in `area` that references call managed, ordered, with their referrers."""
        return ((uri, self._of[uri]) for uri in sorted(self._managed))

    def _resolved(self, uri: str, path: str, file: RetainedFile) -> str:
        """Return the identity of one of the table's own files if it is the same file, else the given one.

        No two containers have one name: if a reference names one of ours at another place, which is not in the blob
        area of the row's own table, the table was moved or copied, and ours is meant. It is a doubt if the two may be
        the same file and only the storage system knows.
        """
        if uri in self._area:
            return uri
        name = posixpath.basename(uri)
        for ours in self._names.get(name, ()):
            same = self._places.is_same(uri, ours)
            if same is None:
                self._doubts[
                    f"'{file.info.uri}' refers to '{path}', which may be '{ours}' under another name; "
                    "a table that was copied from there needs hv.blobs.relocate first"
                ] = None
            elif same:
                return ours
            elif is_container_name(name) and not uri.startswith(self._places.home(BlobArea(file.table).uri)):
                self._elsewhere[uri] = None
                return ours
        return uri
