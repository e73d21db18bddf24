"""The tables that may refer to a table's blobs: which they are, and what their writes under way refer to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from hudi_vector.blobs.registry import read_registry
from hudi_vector.blobs.uploads.external_files import pinned_paths
from hudi_vector.blobs.uploads.manifest import UNREADABLE, Upload
from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import StorageOptions, normalise
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.references.files import read_here
from hudi_vector.table_services.references.gather import gather
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.referrers import Referrers

__all__ = ["claims_of_writes", "named_by_others", "sharing_tables"]


def sharing_tables(native: NativeTable, listed: Sequence[str]) -> tuple[list[NativeTable], list[str]]:
    """A table and all that may share its blobs.

    Args:
        native: The table.
        listed: The base paths of such tables, besides those in its registry.

    Returns:
        The tables, the one itself first, and the doubts about the others.
    """
    uri, options = native.source.uri, native.source.options
    tables, doubts, registered = [native], [], []
    try:
        registered = sorted(read_registry(uri, options))
    except (OSError, HudiVectorError) as problem:
        doubts.append(f"the registry of '{uri}' cannot be read: {problem}")
    for path in dict.fromkeys([*registered, *map(normalise, listed)]):
        if path != uri:
            try:
                tables.append(NativeTable(Source(path, path, options)))
            except (OSError, HudiVectorError) as problem:
                mend = "; unregister_tables takes out one that is gone for good" if path in registered else ""
                doubts.append(f"table '{path}', which may share these blobs, cannot be read: {problem}{mend}")
    doubts += [
        f"'{table.source.uri}' was bootstrapped: rows of it lie in files outside of its folder"
        for table in tables
        if table.config.bootstrapped
    ]
    return tables, doubts


def named_by_others(native: NativeTable, uris: Collection[str]) -> set[str]:
    """The files of a table that retained files of tables in its registry refer to.

    Args:
        native: The table.
        uris: Some of its files.

    Returns:
        Those among them; tables that cannot be read are passed over.
    """
    others = sharing_tables(native, ())[0][1:]
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
    """The files that writes under way refer to, and may yet commit, in places that are not their own table's.

    Args:
        uploads: The writes.
        at_ms: The time less the grace, milliseconds since 1970, UTC.
        area: The identities of the files that are judged, with the paths they are known by.
        places: How paths become identities.
        options: How storage is opened.
        doubts: Takes what cannot be read.

    Returns:
        A write for each such file, by the path in `area`.
    """
    claims: dict[str, Upload] = {}
    for upload in uploads:
        if upload.state == UNREADABLE:
            doubts.append(
                f"the manifest of write '{upload.write_id}' to '{upload.table}' is damaged, so nobody can say what "
                "it refers to; remove its folder if that write has ended"
            )
        elif upload.pins and upload.may_commit(at_ms):
            try:
                named = [places.identities(path, upload.table) for path in set(pinned_paths(upload, options))]
            except (OSError, HudiVectorError) as problem:
                doubts.append(f"what write '{upload.write_id}' to '{upload.table}' refers to cannot be read: {problem}")
                continue
            claims |= {area[identity]: upload for found in named for identity in found if identity in area}
    return claims
