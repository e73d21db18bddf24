"""The check that executors reach the directory in which an index is to be stored."""

from __future__ import annotations

import uuid
from functools import partial

from hudi_vector.errors import InvalidArgumentError, number_of
from hudi_vector.index.calibration.held_out import Each
from hudi_vector.storage import StorageOptions, join, normalise, open_storage, scheme_of

__all__ = ["require_reachable"]


def require_reachable(directory: str, master: str, processes: int, options: StorageOptions, each: Each) -> None:
    """Raise InvalidArgumentError if executors do not see a directory (a path or URI), before an index is made in it.

    This is so if it is a local path and the executors are on other machines, or if one of `processes` tasks does not
    see a file written there. `master` is Spark's master (``local[4]``, ``yarn``); with a local one nothing is checked.
    `each` runs a function for each item on the executors.
    """
    if master.startswith("local"):
        return
    if scheme_of(directory) == "file":
        raise InvalidArgumentError(
            f"'{directory}' is a local path, and executors of '{master}' do not see this machine's disk; name a "
            "directory of a shared file system, such as s3://bucket/indexes"
        )
    uri = join(normalise(directory), "v1", "probes", uuid.uuid4().hex)
    storage = open_storage(uri, options)
    storage.publish(uri, b"")
    try:
        blind = sum(not seen for seen in each(partial(_sees, options=options), [uri] * processes))
    finally:
        storage.delete(uri)
    if blind:
        raise InvalidArgumentError(
            f"{blind} of {number_of(processes, 'task')} on the executors do not see what is written to '{directory}'; "
            "name a "
            "directory that all of them reach"
        )


def _sees(uri: str, options: StorageOptions) -> bool:
    return open_storage(uri, options).info(uri) is not None
