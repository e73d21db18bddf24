"""The rule that decides whether one blob file is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from hudi_vector.blobs.names import write_of, written_ms
from hudi_vector.blobs.uploads.manifest import ABORTED, COMMITTED, PREPARED, UNREADABLE, Upload
from hudi_vector.storage import FileInfo
from hudi_vector.table_services.mark_report import KeptFile, UnneededFile
from hudi_vector.table_services.references.referrers import Referrer, Referrers
from hudi_vector.table_services.retention.pending import PendingInstant
from hudi_vector.table_services.retention.retained import BASE

__all__ = ["Case", "judge", "reason_of_reference"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Case:
    """Everything that is known when files are judged; times in milliseconds since 1970, UTC.

    Attributes:
        table: The table's base path, normalised.
        now_ms: The present.
        grace_ms: The minimum age of a file that may go.
        uploads: The writes of the table by write id, as they were before the data files were read.
        pending: The ingest that began first among those that have not completed, or None.
        referrers: The data files that refer to each file.
        saved: The savepoints that hold data files, by the data file's path from the table's folder.
        named: The writes that may still commit, by the paths of the files that their manifests name; writes to tables
            that share the blobs are included.
        compacting: The compactions that have not ended, by the paths of the containers that they repack.
    """

    table: str
    now_ms: int
    grace_ms: int
    uploads: Mapping[str, Upload]
    pending: PendingInstant | None
    referrers: Referrers
    saved: Mapping[str, str]
    named: Mapping[str, Upload]
    compacting: Mapping[str, str] = field(default_factory=dict)

    @property
    def horizon_ms(self) -> int:
        """Return the present less the grace; files from after this time stay."""
        return self.now_ms - self.grace_ms


def judge(file: FileInfo, case: Case, *, is_ours: bool = True) -> KeptFile | UnneededFile:
    """Return a file as unneeded, or as kept with the reason.

    `file` lies below the table's folder or below a managed root. `is_ours` is False for files below managed roots,
    whose names are not checked.
    """
    path = file.uri.removeprefix(f"{case.table}/")
    write_id = write_of(case.table, file.uri) if is_ours else None
    reason = _kept_by(file, write_id, case, is_ours)
    if reason is not None:
        return KeptFile(path, file.size, reason)
    how = _ended(write_id, case) if write_id is not None else ""
    return UnneededFile(path, file.size, f"no retained data file refers to it{how}", file.mtime_ns // 1_000_000)


def _kept_by(file: FileInfo, write_id: str | None, case: Case, is_ours: bool) -> str | None:
    referrer = case.referrers.of(file.uri)
    if referrer is not None:
        return reason_of_reference(referrer, case)
    compaction = case.compacting.get(file.uri.removeprefix(f"{case.table}/"))
    if compaction is not None:
        return f"compaction '{compaction}' repacks it and has not ended; run compact_blobs to end it"
    if is_ours and write_id is None:
        return "it does not bear a name that this package gives"
    upload = _upload(file, write_id, case)
    if upload is not None:
        until = "for ever, for its manifest is damaged" if upload.state == UNREADABLE else _at(upload.lease_until_ms)
        to = "" if upload.table == case.table else f" to '{upload.table}'"
        return f"write '{upload.write_id}'{to} is {upload.state} and may commit until {until}, and the grace after it"
    if not file.mtime_ns:
        return "its storage tells no modification time"
    written = 0 if write_id is None else written_ms(write_id)
    if written is None:
        return "its name tells no time"
    born = max(file.mtime_ns // 1_000_000, written)
    if born > case.horizon_ms:
        return f"it is of {_at(born)} and stays for the grace of {timedelta(milliseconds=case.grace_ms)}"
    if case.pending is not None and born > case.pending.since_ms - case.grace_ms:
        instant = case.pending
        return (
            f"it is not older, by the grace, than {instant.action} '{instant.requested}' of '{instant.table}', "
            "which has not completed and may refer to it"
        )
    return None


def reason_of_reference(referrer: Referrer, case: Case) -> str:
    """Return a sentence that names the newest data file that refers to a file, with its savepoint."""
    file = referrer.newest
    kind = "base file" if file.kind == BASE else "log file"
    path = file.path if file.table == case.table else file.info.uri
    saved = case.saved.get(file.path) if file.table == case.table else None
    held = f", held by savepoint {saved}" if saved else ""
    others = f" and {referrer.files - 1} more" if referrer.files > 1 else ""
    return f"the {kind} '{path}' of instant {file.instant}{held}{others} refers to it"


def _upload(file: FileInfo, write_id: str | None, case: Case) -> Upload | None:
    """Return the write that may yet commit a reference to the file, found by its folder or manifest, or None."""
    own = None if write_id is None else case.uploads.get(write_id)
    if own is not None and own.may_commit(case.horizon_ms):
        return own
    return case.named.get(file.uri.removeprefix(f"{case.table}/"))


def _ended(write_id: str, case: Case) -> str:
    upload = case.uploads.get(write_id)
    if upload is None:
        return f", and there is no manifest of its write '{write_id}'"
    ends = {
        COMMITTED: f"was committed by instant {upload.instant}",
        ABORTED: "was aborted",
        PREPARED: "was prepared and not written in time",
    }
    return f", and its write '{write_id}' {ends.get(upload.state, 'ended without a commit')}"


def _at(ms: int) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{ms} ms"
