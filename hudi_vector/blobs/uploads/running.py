"""The upload of a write that this process runs: what it published last is known, and is not read again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.uploads.manifest import (
    Upload,
    current,
    finish_known,
    prolong,
    require_not_aborted,
    require_running,
    stage_known,
)
from hudi_vector.blobs.uploads.side_tables import SideTable
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.leases import Renewals

__all__ = ["RunningUpload"]


class RunningUpload:
    """An upload that this process has opened, and that no other process goes on with; threads may share it.

    Other processes may abort it once its lease has run out.

    Args:
        upload: The upload as `open_upload` returned it.
        options: Options to open storage.

    Example:
        >>> import tempfile
        >>> from hudi_vector.blobs.settings import BlobSettings
        >>> from hudi_vector.blobs.uploads.manifest import open_upload
        >>> upload = open_upload(tempfile.mkdtemp(), {"img": BlobSettings()}, lease_ms=60_000)
        >>> running = RunningUpload(upload, StorageOptions())
        >>> running.stage([])
        >>> running.finish("20260101000000000").state
        'committed'
    """

    def __init__(self, upload: Upload, options: StorageOptions) -> None:
        self._upload = upload
        self._options = options
        self._alone = threading.Lock()

    @property
    def upload(self) -> Upload:
        """Return the state that was published last."""
        return self._upload

    def renewals(self) -> Renewals:
        """Return the context manager that renews the lease in the background."""
        return Renewals(f"the lease of upload {self._upload.write_id}", self.renew, self._upload.lease_ms)

    def renew(self) -> None:
        """Extend the lease from now; raise BlobWriteError if the write was ended or its lease ran out."""
        with self._alone:
            self._upload = prolong(current(self._upload, options=self._options), options=self._options)

    def require_held(self) -> None:
        """Raise BlobWriteError if the write was ended or its lease ran out, as the stored bytes may then be gone.

        The lease is extended if more than a third of it is over.
        """
        with self._alone:
            self._upload = current(self._upload, options=self._options)
            left_ms = self._upload.lease_until_ms - require_running(self._upload)
            if left_ms < self._upload.lease_ms * 2 // 3:
                self._upload = prolong(self._upload, options=self._options)

    def stage(self, containers: Iterable[WrittenContainer], pins: Iterable[SideTable] = ()) -> Upload:
        """Publish the containers and pins that the commit will refer to.

        Raise BlobWriteError if the lease ran out, or if another process has ended the write: the commit may follow at
        once.
        """
        return self._published(lambda known: stage_known(known, containers, pins=pins, options=self._options))

    def finish(self, instant: str) -> Upload:
        """Mark the write as committed by a completed instant; raise BlobWriteError if another process had ended it.

        It is marked in that case too: the commit is there, and its rows refer to the containers.
        """
        return self._published(lambda known: finish_known(known, instant, options=self._options))

    def _published(self, publish: Callable[[Upload], Upload]) -> Upload:
        """Publish the next state, and look at the same time whether another process has ended the write."""
        with self._alone:
            storage = open_storage(self._upload.table, self._options)
            looking = storage.begun(partial(require_not_aborted, self._upload, options=self._options))
            self._upload = publish(self._upload)
            looking()
            return self._upload
