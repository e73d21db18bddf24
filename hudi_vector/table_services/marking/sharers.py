"""The tables that may refer to a table's blobs, and the references of their writes under way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from hudi_vector.blobs.registry import read_registry
from hudi_vector.blobs.uploads.external_files import pinned_paths
from hudi_vector.blobs.uploads.manifest import UNREADABLE, Upload
from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import StorageOptions, normalise
from hudi_vector.storage.parallel import each
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.references.files import read_here
from hudi_vector.table_services.references.gather import gather
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.referrers import Referrers

__all__ = ["claims_of_writes", "named_by_others", "registered_tables", "sharing_tables"]


def registered_tables(uri: str, options: StorageOptions) -> tuple[list[str], list[str]]:
    """Return the tables in the registry of a table, and a doubt if the registry cannot be read."""
    try:
        return sorted(read_registry(uri, options)), []
    except (OSError, HudiVectorError) as problem:
        return [], [f"the registry of '{uri}' cannot be read: {problem}"]


def sharing_tables(
    native: NativeTable, listed: Sequence[str], registry: tuple[list[str], list[str]] | None = None
) -> tuple[list[NativeTable], list[str]]:
    """Return a table and all tables that may share its blobs, the table itself first, and doubts.

    `listed` has base paths of such tables in addition to those in the registry, which is read unless it is given as
    `registered_tables` returns it. A registry or table that cannot be read is a doubt, and so is a table that was
    bootstrapped.
    """
    uri, options = native.source.uri, native.source.options
    registered, unread = registry or registered_tables(uri, options)
    tables, doubts = [native], list(unread)

    def opened(path: str) -> NativeTable | str:
        try:
            return NativeTable(Source(path, path, options))
        except (OSError, HudiVectorError) as problem:
            mend = "; unregister_tables takes out one that is gone for good" if path in registered else ""
            return f"table '{path}', which may share these blobs, cannot be read: {problem}{mend}"

    others = [path for path in dict.fromkeys([*registered, *map(normalise, listed)]) if path != uri]
    for found in native.storage.each(opened, others):
        if isinstance(found, str):
            doubts.append(found)
        else:
            tables.append(found)
    doubts += [
        f"'{table.source.uri}' was bootstrapped: rows of it lie in files outside of its folder"
        for table in tables
        if table.config.bootstrapped
    ]
    return tables, doubts


def named_by_others(source: Source, uris: Collection[str], registry: tuple[list[str], list[str]]) -> set[str]:
    """Return those of the given files that retained files of the tables in a table's registry refer to.

    `registry` is what `registered_tables` returned. Tables that cannot be read are skipped.
    """
    if not set(registry[0]) - {source.uri}:
        return set()
    others = sharing_tables(NativeTable(source), (), registry)[0][1:]
    places = Places()
    referrers = Referrers({places.identity(uri): uri for uri in uris} if others else {}, places)
    for other in others:
        gather(other, read_here, referrers)
    return {uri for uri in uris if referrers.of(uri) is not None} if others else set()


def claims_of_writes(
    uploads: Iterable[Upload],
    at_ms: int,
    area: Mapping[str, str],
    places: Places,
    options: StorageOptions,
    doubts: list[str],
) -> dict[str, Upload]:
    """Return the judged files that writes under way pin and may yet commit, with the write, by path.

    `at_ms` is the present less the grace, milliseconds since 1970, UTC. `area` maps the identities of the judged files
    to their paths. A manifest or pins that cannot be read add a sentence to `doubts`.
    """
    held = list(uploads)
    doubts += [
        f"the manifest of write '{upload.write_id}' to '{upload.table}' is damaged, so no one can say what "
        "it refers to; remove its folder if that write has ended"
        for upload in held
        if upload.state == UNREADABLE
    ]
    waiting = [each for each in held if each.state != UNREADABLE and each.pins and each.may_commit(at_ms)]
    claims: dict[str, Upload] = {}
    named = partial(_named_by, places=places, options=options)
    for upload, found in zip(waiting, each(named, waiting), strict=True):
        if isinstance(found, str):
            doubts.append(found)
        else:
            claims |= {area[identity]: upload for identity in found if identity in area}
    return claims


def _named_by(upload: Upload, places: Places, options: StorageOptions) -> list[str] | str:
    """Return the identities of the files that a write pinned, or the doubt about it."""
    try:
        paths = set(pinned_paths(upload, options))
        return [identity for path in paths for identity in places.identities(path, upload.table)]
    except (OSError, HudiVectorError) as problem:
        return f"what write '{upload.write_id}' to '{upload.table}' refers to cannot be read: {problem}"
