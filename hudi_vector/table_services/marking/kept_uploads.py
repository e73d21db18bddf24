"""The manifests of ended writes, kept after they were read, so that the next mark opens only those that may change.

A write that was committed or aborted stays so, and a mark needs to know only how such a write ended. On an object store
each manifest takes three requests, so that a mark of a table with 2,000 ended writes sends 6,027 instead of 32. This is
kept in ``{table}/.hoodie/blob_refs/v1/uploads/``: a side file that names a side table with all ended writes. What is
damaged or gone there is read again from the manifests, so it changes no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hudi_vector.blobs.names import is_write_id
from hudi_vector.blobs.uploads.manifest import ABORTED, COMMITTED, Upload, list_uploads, read_uploads, upload_ids
from hudi_vector.blobs.uploads.side_tables import SideTable, load_table, replace_table, rows_of, table_of
from hudi_vector.errors import DataFileError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.records import Record
from hudi_vector.table_services.references.kept import KEPT_REFERENCES

__all__ = ["KeptUploads", "UploadReader", "all_uploads"]

_LOCAL = StorageOptions()

UploadReader = Callable[[str, StorageOptions], Iterable[Upload]]
"""A function that reads the uploads to a table, oldest first."""


@dataclass(frozen=True)
class _Ended:
    """A write that has ended; `instant` is empty if none refers to it."""

    table: str
    write_id: str
    state: str
    opened_ms: int
    instant: str

    @property
    def upload(self) -> Upload:
        """Return the write without its containers."""
        return Upload(self.table, self.write_id, self.state, self.opened_ms, instant=self.instant or None)


@dataclass(frozen=True)
class _Kept:
    """The body of the side file."""

    ended: SideTable


_KEPT = Record("ended-uploads", 1, _Kept)


class KeptUploads:
    """A reader of the uploads to tables, which takes ended ones from what earlier runs kept.

    Kept uploads come without their containers. Use one object as the `uploads` of all marks of a run, then call `save`.

    Args:
        table: The base path of the table under whose ``.hoodie`` they are kept.
        options: The storage settings.
        verify: If True, read every manifest even if it is kept, and replace what is kept.

    Attributes:
        opened: The number of manifests that were read.

    Raises:
        UnsupportedTableError: A newer version of this package keeps uploads there.

    Example:
        >>> kept = KeptUploads("/tables/photos")
        >>> from hudi_vector.table_services.marking.mark import find_unneeded
        >>> report = find_unneeded("/tables/photos", grace_ms=86_400_000, uploads=kept)
        >>> kept.save()
    """

    def __init__(self, table: str, options: StorageOptions = _LOCAL, *, verify: bool = False) -> None:
        """Load what was kept, unless `verify` is set."""
        root = normalise(table)
        self._storage, self._folder = open_storage(root, options), join(root, KEPT_REFERENCES, "uploads")
        self._newest = _KEPT.newest(self._storage, self._folder)
        self._ended: dict[str, dict[str, _Ended]] = {}
        for each in () if verify else self._loaded():
            self._ended.setdefault(each.table, {})[each.write_id] = each
        self._is_changed = verify
        self.opened = 0

    def __call__(self, table: str, options: StorageOptions) -> list[Upload]:
        """Return the uploads to a table, oldest first."""
        root = normalise(table)
        names = upload_ids(root, options=options)
        known = self._ended.get(root, {})
        read = read_uploads(root, [name for name in names if name not in known], options=options)
        self.opened += len(read)
        ended = {name: known[name] for name in names if name in known}
        running = []
        for upload in read:
            if upload.state in (COMMITTED, ABORTED):
                ended[upload.write_id] = _Ended(
                    root, upload.write_id, upload.state, upload.opened_ms, upload.instant or ""
                )
            else:
                running.append(upload)
        self._is_changed |= ended.keys() != known.keys()
        self._ended[root] = ended
        return sorted([*running, *(each.upload for each in ended.values())], key=lambda upload: upload.write_id)

    def save(self) -> None:
        """Keep the ended writes that were read, without those whose manifests are gone."""
        if not self._is_changed:
            return
        rows = [each for ended in self._ended.values() for each in ended.values()]
        self._newest = replace_table(
            self._storage, self._folder, _KEPT, self._newest, "ended", table_of(_Ended, rows), _Kept
        )
        self._is_changed = False

    def _loaded(self) -> Iterator[_Ended]:
        if self._newest is None:
            return
        try:
            file = self._newest.value().ended
            rows = rows_of(_Ended, load_table(self._storage, self._folder, file), self._folder)
        except DataFileError:
            return
        yield from (each for each in rows if is_write_id(each.write_id) and each.state in (COMMITTED, ABORTED))


def all_uploads(table: str, options: StorageOptions) -> list[Upload]:
    """Return the uploads to a table, oldest first, by opening every manifest."""
    return list_uploads(table, options=options)
