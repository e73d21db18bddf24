"""Table services: scheduled jobs over a table that plan, run and commit.

    maintain             run the jobs that are due on a table; made for an hourly schedule
    clean_blobs          mark blob files that nothing needs and move them to a trash
    mark_blobs           find these files and publish a report, without moving any
    sweep_blobs          move the files of a published report to the trash
    restore_blobs        move files back from the trash
    explain_blob         explain what keeps a blob file
    list_containers      list the files in a table's blob area
    compact_blobs        repack the live blobs of containers that are mostly dead, or small
    cluster              run Hudi's clustering, then repack blobs in the new order of their rows
    check_erasure        find the files that still hold bytes of given records
    erase                delete given records for good, in every file, and prove it
    register_tables      allow tables to refer to each other's blobs
    registered_tables    list the tables that may refer to a table's blobs
    unregister_tables    remove tables from each other's registry

Each function is loaded when it is first used, so importing this package loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import absent_name

if TYPE_CHECKING:
    from hudi_vector.table_services.cleaning.api import clean_blobs, mark_blobs, restore_blobs, sweep_blobs
    from hudi_vector.table_services.cleaning.explain import explain_blob
    from hudi_vector.table_services.cleaning.listing import list_containers
    from hudi_vector.table_services.clustering.api import cluster
    from hudi_vector.table_services.compaction.api import compact_blobs
    from hudi_vector.table_services.erasure.api import check_erasure
    from hudi_vector.table_services.erasure.erase import erase
    from hudi_vector.table_services.maintenance.api import maintain
    from hudi_vector.table_services.sharing import register_tables, registered_tables, unregister_tables

_HOMES = {
    "check_erasure": "hudi_vector.table_services.erasure.api",
    "erase": "hudi_vector.table_services.erasure.erase",
    "clean_blobs": "hudi_vector.table_services.cleaning.api",
    "maintain": "hudi_vector.table_services.maintenance.api",
    "explain_blob": "hudi_vector.table_services.cleaning.explain",
    "list_containers": "hudi_vector.table_services.cleaning.listing",
    "cluster": "hudi_vector.table_services.clustering.api",
    "compact_blobs": "hudi_vector.table_services.compaction.api",
    "mark_blobs": "hudi_vector.table_services.cleaning.api",
    "register_tables": "hudi_vector.table_services.sharing",
    "registered_tables": "hudi_vector.table_services.sharing",
    "restore_blobs": "hudi_vector.table_services.cleaning.api",
    "sweep_blobs": "hudi_vector.table_services.cleaning.api",
    "unregister_tables": "hudi_vector.table_services.sharing",
}

__all__ = [
    "check_erasure",
    "clean_blobs",
    "cluster",
    "compact_blobs",
    "erase",
    "explain_blob",
    "list_containers",
    "maintain",
    "mark_blobs",
    "register_tables",
    "registered_tables",
    "restore_blobs",
    "sweep_blobs",
    "unregister_tables",
]


if not TYPE_CHECKING:  # otherwise type checkers would accept every misspelt name as Any

    def __getattr__(name: str) -> Any:
        """Import and return a public function on first access; raise `AttributeError` for an unknown name."""
        if name not in _HOMES:
            raise absent_name("hudi_vector.table_services", name, __all__)
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
