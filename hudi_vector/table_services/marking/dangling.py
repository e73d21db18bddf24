"""Dangling files: files that a table owns and data files refer to, but that are gone or in the trash."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.fs as pafs

from hudi_vector.blobs.uploads.external_files import file_infos
from hudi_vector.errors import number_of
from hudi_vector.table_services.mark_report import KeptFile
from hudi_vector.table_services.marking.verdict import Case, reason_of_reference
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.referrers import Referrer, Referrers
from hudi_vector.table_services.sites import Site, is_outside
from hudi_vector.table_services.trash.trash import TrashedFile

__all__ = ["dangling_files", "dangling_notes"]

_BACK = "it is in the trash, from where restore_blobs brings it back"
_GONE = "there is no such file"


def dangling_files(
    site: Site, case: Case, places: Places, homes: Mapping[str, str], trash: Sequence[TrashedFile]
) -> list[KeptFile]:
    """Return the dangling files ordered by path, each with who refers to it and whether it can be restored.

    `homes` maps the beginning of the identities of files that the table owns to the beginning of their paths: those of
    the blob area and of the managed roots. `trash` has the files of the trash, those of the newest sweep first. A file
    on storage that cannot be reached does not count as dangling.
    """
    # Reversed, the newest copy wins: the one that `restore` puts back.
    trashed = {copy.path: copy for copy in reversed(trash)}
    wanted = dict(_own(case.referrers, {places.identity(site.uri(path)): path for path in trashed}, homes))
    infos = file_infos([site.uri(path) for path in wanted], site.options, lenient=True)
    there = {path for path, info in zip(wanted, infos, strict=True) if not _is_gone(info)}
    return [_dangling(path, wanted[path], trashed.get(path), case) for path in sorted(wanted.keys() - there)]


def dangling_notes(files: Sequence[KeptFile]) -> Iterator[str]:
    """Yield notes for the operator: one for the files that can be restored, one for those that cannot.

    Example:
        >>> list(dangling_notes([]))
        []
    """
    back = [file for file in files if file.reason.endswith(_BACK)]
    gone = [file for file in files if not file.reason.endswith(_BACK)]
    if back:
        yield f"{_many(back)} in the trash, such as '{back[0].path}'; restore_blobs brings back what was swept"
    if gone:
        yield f"{_many(gone)} gone, such as '{gone[0].path}'; hv.blobs.verify lists the rows that have them now"


def _own(referrers: Referrers, trashed: Mapping[str, str], homes: Mapping[str, str]) -> Iterator[tuple[str, Referrer]]:
    """Yield path and referrer of the table's own files that references name and no listing showed."""
    # A missing file cannot be compared through another mount; its folder and name, which are unique, identify it.
    tails = {_tail(identity): path for identity, path in trashed.items() if not is_outside(path)}
    for identity, referrer in referrers.not_listed():
        path = trashed.get(identity) or tails.get(_tail(identity))
        home = next((home for home in homes if identity.startswith(home)), None)
        if path is not None:
            yield path, referrer
        elif home is not None:
            yield homes[home] + identity[len(home) :], referrer


def _tail(identity: str) -> str:
    folder, name = posixpath.split(identity)
    return f"{posixpath.basename(folder)}/{name}"


def _is_gone(info: pafs.FileInfo | None) -> bool:
    return info is not None and info.type == pafs.FileType.NotFound


def _dangling(path: str, referrer: Referrer, copy: TrashedFile | None, case: Case) -> KeptFile:
    where = _GONE if copy is None else _BACK
    return KeptFile(path, copy.bytes if copy else 0, f"{reason_of_reference(referrer, case)}, and {where}")


def _many(files: Sequence[KeptFile]) -> str:
    return number_of(len(files), "file that data files refer to is", "files that data files refer to are")
