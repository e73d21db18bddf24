"""The references of immutable files, kept after they were read, so that the next mark opens only new files.

They are stored in ``{table}/.hoodie/blob_refs/v1/`` (`hudi_vector.table_services.references.shards`) by the file's URI,
size and modification time: a log file that grew or a base file that was rewritten counts as a new file. What is damaged
or gone there is read again from the data files, so it changes no verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from hudi_vector.storage import FileInfo, StorageOptions, join, normalise, open_storage
from hudi_vector.table_services.references.files import FileReferences, Reader, read_here
from hudi_vector.table_services.references.references import folded
from hudi_vector.table_services.references.shards import ReferenceShards
from hudi_vector.table_services.retention.retained import RetainedFile

__all__ = ["KEPT_REFERENCES", "KeptReferences", "is_settled"]

KEPT_REFERENCES = ".hoodie/blob_refs/v1"

# A file that changes within one tick of its storage's clock may keep its size and modification time.
_SETTLED_NS = 60_000_000_000
_LOCAL = StorageOptions()


class KeptReferences:
    """A reader of retained files, which takes references from what earlier runs kept.

    Use one object as the `reader` of all marks of a run, then call `save`.

    Args:
        table: The base path of the table under whose ``.hoodie`` references are kept.
        options: The storage settings.
        reader: Reads the new files.
        verify: If True, read every file once even if its references are kept, and compare the two.

    Attributes:
        verify: As above.
        opened: The number of files that were read.
        differing: The URIs of files whose kept references were wrong; only with `verify`.

    Raises:
        UnsupportedTableError: A newer version of this package keeps references there.

    Example:
        >>> kept = KeptReferences("/tables/photos")
        >>> from hudi_vector.table_services.marking.mark import find_unneeded
        >>> report = find_unneeded("/tables/photos", grace_ms=86_400_000, reader=kept)
        >>> kept.save()
    """

    def __init__(
        self,
        table: str,
        options: StorageOptions = _LOCAL,
        reader: Reader = read_here,
        *,
        verify: bool = False,
    ) -> None:
        """List what was kept; references are loaded when they are needed."""
        root = normalise(table)
        self._shards = ReferenceShards(open_storage(root, options), join(root, KEPT_REFERENCES))
        self._reader = reader
        self.verify = verify
        self._used: set[FileInfo] = set()
        self._proved: set[FileInfo] = set()
        self._added: set[FileInfo] = set()
        self.opened = 0
        self.differing: list[str] = []

    def __call__(self, files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
        """Yield the references of the given files, in no order.

        Kept references come folded by path, which is all that a verdict needs.
        """
        return self._read(files, options, fold=True)

    def whole(self, files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
        """Yield the references of the given files, in no order, as `REFERENCES`."""
        return self._read(files, options, fold=False)

    def _read(self, files: Sequence[RetainedFile], options: StorageOptions, fold: bool) -> Iterator[FileReferences]:
        trusted = [file for file in files if not self.verify or file.info in self._proved]
        unknown = [file for file in files if self.verify and file.info not in self._proved]
        by_info = {file.info: file for file in trusted}
        for info, known in self._shards.of(by_info, fold=fold):
            if known is None:
                unknown.append(by_info[info])
            else:
                self._used.add(info)
                yield FileReferences(by_info[info], known, was_opened=False)
        for found in self._reader(unknown, options):
            self.opened += not found.is_gone
            # A torn file is never kept: each run has to check again whether its write has completed.
            is_whole = found.doubt is None and found.torn is None and not found.is_gone
            if is_whole and is_settled(found.file.info):
                self._keep(found.file.info, found.references)
            yield found

    def use(self, infos: Iterable[FileInfo]) -> None:
        """Make `save` keep the references of these files, even if nothing asked for them in this run."""
        self._used.update(infos)

    def save(self, *, forget: bool = True) -> int:
        """Keep what was read, and return how many files' references were added since the last call.

        With `forget`, the references of files that were not asked for are dropped; only a run that asked for all files
        may do so.
        """
        self._shards.save(self._used.__contains__ if forget else lambda info: True)  # noqa: ARG005
        added, self._added = len(self._added), set()
        return added

    def _keep(self, info: FileInfo, references: pa.Table) -> None:
        if self.verify and not self._is_kept(info, references):
            self.differing.append(info.uri)
        self._shards.add(info, references)
        self._used.add(info)
        self._proved.add(info)
        self._added.add(info)

    def _is_kept(self, info: FileInfo, references: pa.Table) -> bool:
        """Return True if a file's kept references are right, or if none are kept."""
        for fold, right in ((False, references), (True, folded(references))):
            ((_, known),) = self._shards.of([info], fold=fold)
            if known is not None and not _in_order(known).equals(_in_order(right)):
                return False
        return True


def is_settled(info: FileInfo) -> bool:
    """Return True if a file's modification time is known and more than a minute ago.

    The file can then no longer change within one tick of its storage's clock, so size and modification time identify
    it.
    """
    return 0 < info.mtime_ns < time.time_ns() - _SETTLED_NS


def _in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
