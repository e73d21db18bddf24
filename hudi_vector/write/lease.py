"""The lease of a running upload, renewed while the driver lives."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

from hudi_vector.blobs.manifest import Upload, renew_lease
from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import StorageOptions

__all__ = ["Lease"]

_LOG = logging.getLogger(__name__)
_RENEWALS = 3  # for each length of the lease


class Lease:
    """Renews an upload's lease in the background, as a context manager.

    Args:
        upload: The upload, open.
        options: How storage is opened.
    """

    def __init__(self, upload: Upload, options: StorageOptions) -> None:
        self._upload = upload
        self._options = options
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="hudi-vector-lease", daemon=True)

    def check(self) -> None:
        """Renew now.

        Raises:
            BlobWriteError: The lease ran out, so that the upload's bytes may be gone.
        """
        renew_lease(self._upload.table, self._upload.write_id, options=self._options)

    def _renew(self) -> None:
        while not self._ended.wait(self._upload.lease_ms / 1000 / _RENEWALS):
            try:
                self.check()
            except (HudiVectorError, OSError) as problem:
                # The next renewal may succeed, and the check before the commit has the last word.
                _LOG.warning("the lease of upload %s was not renewed: %s", self._upload.write_id, problem)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
