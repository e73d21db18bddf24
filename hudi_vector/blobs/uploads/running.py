"""The upload of a write that this process runs: what it published last is known, and is not read again."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.uploads.manifest import (
    Upload,
    current,
    finish_known,
    prolong,
    require_running,
    stage_known,
)
from hudi_vector.blobs.uploads.side_tables import SideTable
from hudi_vector.storage import StorageOptions
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
        """Publish the containers and pins that the commit will refer to; raise BlobWriteError if the lease ran out.

        Whether another process has ended the write is left to `require_held`, right before the commit.
        """
        with self._alone:
            self._upload = stage_known(self._upload, containers, pins=pins, options=self._options)
            return self._upload

    def finish(self, instant: str) -> Upload:
        """Mark the write as committed by a completed instant; raise BlobWriteError if another process has ended it."""
        with self._alone:
            self._upload = finish_known(current(self._upload, options=self._options), instant, options=self._options)
            return self._upload
