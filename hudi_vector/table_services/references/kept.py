"""The references of immutable files, kept once they were read: the next mark opens only files that are new.

They lie in ``{table}/.hoodie/blob_refs/v1/`` (`hudi_vector.table_services.references.shards`), keyed by a file's URI,
size and modification time: a log file that grew and a base file that was written anew are other files. Whatever of
this is damaged or gone is read anew from the data files, so that it changes no verdict.
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

# A file that changes within the tick of its storage's clock keeps its identity.
_SETTLED_NS = 60_000_000_000
_LOCAL = StorageOptions()


class KeptReferences:
    """Reads retained files, those that an earlier run has read from what it kept.

    Use one for all marks of a run, as their `reader`, and call `save`.

    Args:
        table: The base path of the table under whose ``.hoodie`` references are kept.
        options: How storage is opened.
        reader: Reads the files that are new.
        verify: Whether every file is read once although its references are kept, and the two are compared.

    Attributes:
        verify: As above.
        opened: How many files were read.
        differing: The URIs of files whose kept references were not those that they hold; with `verify` only.

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
        """What was kept is listed now, and loaded where it is needed."""
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
        """The references of some files, in no order; what was kept comes folded by path, all that a verdict needs."""
        return self._read(files, options, fold=True)

    def whole(self, files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
        """The references of some files, in no order, as they stand in their rows."""
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
            # A torn file is read each time, so that each time it is asked whether its write has completed.
            is_whole = found.doubt is None and found.torn is None and not found.is_gone
            if is_whole and is_settled(found.file.info):
                self._keep(found.file.info, found.references)
            yield found

    def use(self, infos: Iterable[FileInfo]) -> None:
        """Let `save` not forget these files, although nothing asks for their references now."""
        self._used.update(infos)

    def save(self, *, forget: bool = True) -> int:
        """Keep what was read.

        Args:
            forget: Whether files that were not asked for are forgotten, as a run may that asked for all there are.

        Returns:
            How many files' references were added since the last time.
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
        """Whether what is kept of a file is what it holds; also where nothing is kept."""
        for fold, right in ((False, references), (True, folded(references))):
            ((_, known),) = self._shards.of([info], fold=fold)
            if known is not None and not _in_order(known).equals(_in_order(right)):
                return False
        return True


def is_settled(info: FileInfo) -> bool:
    """Whether a file's identity can be relied upon: it is too old to change within one tick of its storage's clock."""
    return 0 < info.mtime_ns < time.time_ns() - _SETTLED_NS


def _in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
