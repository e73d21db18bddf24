"""Every data file of a table that is on storage, whatever the timeline says about it.

The table's folders are listed as they are. Latest and older file slices, replaced file groups, files of savepoints and
files of pending instants are all found, so nothing on storage can be missed. A file of unknown kind is a doubt.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import FileInfo, Storage, join
from hudi_vector.storage.listed import shown, with_names
from hudi_vector.table.names import parse_base_file, parse_log_file

__all__ = ["BASE", "LOG", "Retained", "RetainedFile", "list_retained"]

BASE, LOG = "base", "log"

_HOODIE = ".hoodie"
_LOCAL = "file://"
_PARTITION_METADATA = (".hoodie_partition_metadata", ".hoodie_partition_metadata.parquet")


@dataclass(frozen=True)
class RetainedFile:
    """A data file, described by its storage entry and its name.

    Attributes:
        table: The table's base path, normalised.
        info: The file's URI, size and modification time.
        kind: BASE or LOG.
        file_id: The file group.
        instant: The requested time of the action that wrote the file.
    """

    table: str
    info: FileInfo
    kind: str
    file_id: str
    instant: str

    @property
    def path(self) -> str:
        """Return the path from the table's folder."""
        return self.info.uri[len(self.table) + 1 :]


@dataclass(frozen=True)
class Retained:
    """The data files of a table, ordered by URI, and the doubts about what is stored among them."""

    files: tuple[RetainedFile, ...]
    doubts: tuple[str, ...] = ()


def list_retained(table: str, storage: Storage, before: Iterable[RetainedFile] = ()) -> Retained:
    """Return the base files and log files of a table, given by its normalised base path.

    `before` are files that an earlier listing showed: their folders are listed at the same time as the table's.

    ``.hoodie``, checksum files and partition metadata hold no rows and are left out. Anything else that is not a
    Parquet or Lance base file or a log file is a doubt, and so are links that lead nowhere and folders that cannot be
    listed.

    Example:
        >>> from hudi_vector.storage import StorageOptions, open_storage
        >>> list_retained("file:///nowhere", open_storage("file:///nowhere", StorageOptions()))
        Retained(files=(), doubts=())
    """
    try:
        listed, odd = with_names(
            _listed(table, storage, {file.path.partition("/")[0] for file in before if "/" in file.path})
        )
    except (OSError, HudiVectorError) as problem:
        return Retained((), (shown(f"the folders of '{table}' cannot be listed: {problem}"),))
    files, doubts = [], [*odd, *map(shown, _links_to_nowhere(table))]
    for info in sorted(listed, key=lambda info: info.uri):
        if info.name.endswith(".crc") or info.name in _PARTITION_METADATA:
            continue
        found = _data_file(table, info)
        if isinstance(found, str):
            doubts.append(found)
        else:
            files.append(found)
    return Retained(tuple(files), tuple(doubts))


def _listed(table: str, storage: Storage, known: Collection[str]) -> list[FileInfo]:
    def below(folder: str) -> list[FileInfo]:
        return storage.list_files(join(table, folder), recursive=True)

    begun = {folder: storage.begun(partial(below, folder)) for folder in sorted(known)}
    listed, folders = storage.list_both(table)
    new = [folder for folder in folders if folder != _HOODIE and folder not in begun]
    for part in [*(part() for part in begun.values()), *storage.each(below, new)]:
        listed += part
    return listed


def _links_to_nowhere(table: str) -> list[str]:
    """Return a doubt for each link whose target does not exist now, since listings skip such links."""
    if not table.startswith(_LOCAL):
        return []
    top = table[len(_LOCAL) :]
    doubts = []
    for folder, folders, files in os.walk(top, followlinks=True):
        if folder == top and _HOODIE in folders:
            folders.remove(_HOODIE)
        paths = (os.path.join(folder, name) for name in [*folders, *files])
        doubts += [f"'{path}' is a link that leads nowhere" for path in paths if _leads_nowhere(path)]
    return doubts


def _leads_nowhere(path: str) -> bool:
    return os.path.islink(path) and not os.path.exists(path)


_READABLE = frozenset({"parquet", "lance"})
_UNREAD: Mapping[str, str] = {"orc": "ORC", "hfile": "HFile"}


def _data_file(table: str, info: FileInfo) -> RetainedFile | str:
    """Return the data file, or the doubt about it."""
    base = parse_base_file(info.name)
    if base is not None and base.format in _READABLE:
        return RetainedFile(table, info, BASE, base.file_id, base.instant)
    if base is not None:
        return f"'{info.uri}' is a base file in {_UNREAD[base.format]}, whose references cannot be read here"
    log = parse_log_file(info.name)
    if log is not None:
        return RetainedFile(table, info, LOG, log.file_id, log.instant)
    return f"'{info.uri}' is among the data files of the table and does not have the name of a data file"
