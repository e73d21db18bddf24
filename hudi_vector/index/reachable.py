"""Whether the processes that build and search an index reach the directory it lies in."""

from __future__ import annotations

import uuid
from functools import partial

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.calibration.held_out import Each
from hudi_vector.storage import StorageOptions, join, normalise, open_storage, scheme_of

__all__ = ["require_reachable"]


def require_reachable(directory: str, master: str, processes: int, options: StorageOptions, each: Each) -> None:
    """Refuse a directory that executors do not see, before anything is made in it.

    Args:
        directory: The directory, a path or URI.
        master: Spark's master, such as ``local[4]`` or ``yarn``.
        processes: How many executors' tasks look.
        options: How the storage is opened.
        each: A way to go through items on the executors.

    Raises:
        InvalidArgumentError: It is a local path and the executors are elsewhere, or one of them does not see what is
            written there.
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
            f"{blind} of {processes} tasks on the executors do not see what is written to '{directory}'; name a "
            "directory that all of them reach"
        )


def _sees(uri: str, options: StorageOptions) -> bool:
    return open_storage(uri, options).info(uri) is not None
