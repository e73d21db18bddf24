"""``hv.table_services.register_tables`` and its counterparts: tables that may refer to each other's blobs.

`share` and `part` do the work without Spark, which is only needed to locate the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.leases import CLEAN
from hudi_vector.blobs.registry import LEAVING, LEFT, REGISTERED, enter, read_registry
from hudi_vector.blobs.uploads.external_files import pinned_paths
from hudi_vector.blobs.uploads.manifest import UNREADABLE, list_uploads
from hudi_vector.errors import HudiVectorError, InvalidArgumentError, RefusedError
from hudi_vector.shown import Listed
from hudi_vector.storage import StorageOptions, join, normalise
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.arguments import paths
from hudi_vector.table_services.located import locate_anyhow
from hudi_vector.table_services.references.files import Reader, read_here
from hudi_vector.table_services.references.gather import gather
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.referrers import Referrers
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.options import Settings

__all__ = ["part", "register_tables", "registered_tables", "share", "unregister_tables"]

_LOCAL = StorageOptions()


@known_arguments()
def register_tables(spark: SparkSession | Settings | None, table: str, others: Sequence[str]) -> Listed[str]:
    """Allow tables to refer to each other's blobs.

    Each of the tables lists every other one in its registry. From then on ``hv.write`` keeps references from one table
    to blobs of another, and the cleaner of each table reads the references of all of them before it takes a file; it
    takes nothing if one of them cannot be read. Registering tables again changes nothing.

    Args:
        spark: A registered session; `Settings` for paths, or None for paths on this machine.
        table: The name or path of a Hudi table.
        others: The names or paths of the other tables.

    Returns:
        The base paths of all tables that the first table now lists, sorted.

    Raises:
        InvalidArgumentError: `others` names no other table.
        RefusedError: The cleaner of one of the tables is running.
        TableNotFoundError: One of the tables does not exist.

    Example:
        >>> hv.table_services.register_tables(spark, "photos", ["albums"])
        ['file:///tables/albums']
    """
    root, _, options = locate_anyhow(spark, table)
    share([root, *(locate_anyhow(spark, other)[0] for other in paths("others", others))], options)
    return Listed(sorted(read_registry(root, options)))


@known_arguments()
def unregister_tables(
    spark: SparkSession | Settings | None, table: str, others: Sequence[str], *, gone: bool = False
) -> Listed[str]:
    """Remove tables from each other's registry, provided that neither refers to a blob of the other.

    Args:
        spark: A registered session; `Settings` for paths, or None for paths on this machine.
        table: The name or path of a Hudi table.
        others: The names or paths of tables that it lists.
        gone: Whether the other tables, then given by their paths, no longer exist; they are not read in that case.

    Returns:
        The base paths of the tables that the first table still lists, sorted.

    Raises:
        RefusedError: One table refers to a blob of the other, a write under way does so, a table cannot be read, or
            `gone` is given and the other table still exists.
        InvalidArgumentError: The table does not list one of the others.
        TableNotFoundError: One of the tables does not exist, and `gone` is not given.

    Example:
        >>> hv.table_services.unregister_tables(spark, "photos", ["albums"])
        []
    """
    root, _, options = locate_anyhow(spark, table)
    for other in paths("others", others):
        part(root, normalise(other) if gone else locate_anyhow(spark, other)[0], options, gone=gone)
    return Listed(sorted(read_registry(root, options)))


@known_arguments()
def registered_tables(spark: SparkSession | Settings | None, table: str) -> Listed[str]:
    """List the tables whose rows may refer to a table's blobs.

    Args:
        spark: A registered session; `Settings` for paths, or None for paths on this machine.
        table: The name or path of a Hudi table.

    Returns:
        The base paths of these tables, sorted.

    Raises:
        TableNotFoundError: There is no such table.
        DataFileError: The registry is damaged.

    Example:
        >>> hv.table_services.registered_tables(spark, "photos")
    """
    root, _, options = locate_anyhow(spark, table)
    return Listed(sorted(read_registry(root, options)))


def share(tables: Sequence[str], options: StorageOptions = _LOCAL) -> None:
    """Enter each of the tables (base paths) into the registry of every other one, under the cleaner's lease of each.

    Raise InvalidArgumentError for fewer than two tables, and RefusedError if the cleaner of one of them is running:
    that cleaner may have read the registry already.
    """
    roots = list(dict.fromkeys(map(normalise, tables)))
    if len(roots) < 2:
        raise InvalidArgumentError(f"'{roots[0]}' is the only table given; name another one that shares its blobs")
    with ExitStack() as leases:
        for root in sorted(roots):
            leases.enter_context(ServiceLease(root, CLEAN, options=options))
        for root in roots:
            known = read_registry(root, options)
            for other in roots:
                if other != root and known.get(other) != REGISTERED:
                    enter(root, other, REGISTERED, options)


def part(
    table: str, other: str, options: StorageOptions = _LOCAL, *, gone: bool = False, reader: Reader = read_here
) -> None:
    """Take two tables (base paths) out of each other's registry.

    If the process is killed at any point, either both tables are still read by each other's cleaner, or neither needs
    that any more. With `gone`, the other table no longer exists and only the first table's registry changes. `reader`
    reads retained files. Raise InvalidArgumentError if the first table does not list the other one, and RefusedError if
    one of them, or a write under way, refers to a blob of the other.
    """
    root, listed = normalise(table), normalise(other)
    if listed not in read_registry(root, options):
        raise InvalidArgumentError(
            f"'{root}' does not list '{listed}'; it lists {', '.join(sorted(read_registry(root, options))) or 'none'}"
        )
    if gone:
        _require_gone(listed, options)
        enter(root, listed, LEFT, options)
        return
    pairs = [(root, listed), (listed, root)]
    for owner, user in pairs:
        enter(owner, user, LEAVING, options)
    for owner, user in pairs:
        found = next(_needs(user, owner, options, reader), None)
        if found is not None:
            for each, its in pairs:
                enter(each, its, REGISTERED, options)
            raise RefusedError(f"'{user}' cannot leave the registry of '{owner}': {found}")
    for owner, user in pairs:
        enter(owner, user, LEFT, options)


def _needs(user: str, owner: str, options: StorageOptions, reader: Reader) -> Iterator[str]:
    """Yield sentences that say why table `user` needs blobs of table `owner`, or why that cannot be ruled out."""
    area, places, now = BlobArea(owner), Places(), clock_ms()
    home = places.home(area.uri)
    # Writes are listed before data files: a write that commits in between is then found in the data files.
    for upload in list_uploads(user, options=options):
        if upload.state == UNREADABLE:
            yield f"the manifest of its write '{upload.write_id}' is damaged; remove its folder if that write has ended"
        paths = pinned_paths(upload, options) if upload.may_commit(now) else []
        if any(each.startswith(home) for path in paths for each in places.identities(path, user)):
            yield f"write '{upload.write_id}', which is under way, refers to its blobs; wait until that has ended"
    referrers = Referrers({}, places)
    gathered = gather(NativeTable(Source(user, user, options)), reader, referrers)
    yield from (f"{doubt}; mend that first" for doubt in (*gathered.doubts, *referrers.doubts))
    for uri, referrer in referrers.below(home):
        file = referrer.newest.info.uri
        yield f"'{file}' refers to '{uri}'; write the bytes into that table, or let Hudi clean such rows away"


def _require_gone(table: str, options: StorageOptions) -> None:
    try:
        NativeTable(Source(table, table, options))
    except LookupError:
        return
    except (OSError, HudiVectorError) as problem:
        raise RefusedError(
            f"'{table}' may still be there, and what it refers to is not known: {problem}; it is gone once "
            f"{join(table, '.hoodie/hoodie.properties')} is"
        ) from problem
    raise RefusedError(f"'{table}' is still there; leave gone out, so that it is read first")
