"""The manifest of a write's uploads: its states, its lease, races between publishers, damage."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.uploads import manifest
from hudi_vector.blobs.uploads.manifest import (
    ABORTED,
    COMMITTED,
    OPEN,
    PREPARED,
    STAGED,
    UNREADABLE,
    Upload,
    abort,
    finish,
    list_uploads,
    open_upload,
    read_checksums,
    read_upload,
    renew_lease,
    stage,
)
from hudi_vector.errors import BlobWriteError, DataFileError, InvalidArgumentError, UnsupportedTableError
from hudi_vector.storage.side_files import seal, unseal

NOW = 1_790_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
COLUMNS = {"img": BlobSettings(format="lance"), "doc.scan": BlobSettings()}


def opened(table: Path, prepared: bool = False) -> Upload:
    return open_upload(str(table), COLUMNS, lease_ms=HOUR, prepared=prepared, now_ms=NOW)


def files(table: Path, upload: Upload) -> list[Path]:
    return sorted((table / ".hoodie/blob_service/v1/uploads" / upload.write_id).iterdir())


def container(path: str, **checks: object) -> WrittenContainer:
    return WrittenContainer(path, "d=1", "img", 30, 2, 20, **checks)  # type: ignore[arg-type]


def test_an_open_upload_says_who_writes_what_until_when(tmp_path: Path) -> None:
    made = opened(tmp_path)
    assert (made.state, made.opened_ms, made.lease_until_ms, made.lease_ms) == (OPEN, NOW, NOW + HOUR, HOUR)
    assert dict(made.columns) == COLUMNS
    assert read_upload(str(tmp_path), made.write_id) == made
    assert list_uploads(f"file://{tmp_path}/") == [made]
    [file] = files(tmp_path, made)
    head, body = file.read_bytes().split(b"\n", 1)
    assert head.startswith(b"HUDI-VECTOR upload 1 ")
    assert json.loads(body)["write_id"] == made.write_id


def test_a_table_without_uploads_has_none(tmp_path: Path) -> None:
    assert list_uploads(str(tmp_path)) == []
    for unknown in ("20260101000000000_0123456789ab", "../../x", ""):
        with pytest.raises(InvalidArgumentError, match=r"has no upload .* list_uploads names those it has"):
            read_upload(str(tmp_path), unknown)


def test_uploads_are_listed_by_age(tmp_path: Path) -> None:
    made = [open_upload(str(tmp_path), {}, lease_ms=1, now_ms=now) for now in (NOW + 5, NOW, NOW + DAY)]
    assert list_uploads(str(tmp_path)) == sorted(made, key=lambda upload: upload.opened_ms)


def test_the_way_to_a_commit(tmp_path: Path) -> None:
    table, made = str(tmp_path), opened(tmp_path)
    renewed = renew_lease(table, made.write_id, now_ms=NOW + HOUR - 1)
    assert renewed.lease_until_ms == NOW + 2 * HOUR - 1
    staged = stage(table, made.write_id, [container("b"), container("a")], now_ms=NOW + HOUR + 5)
    assert (staged.state, staged.lease_until_ms) == (STAGED, NOW + 2 * HOUR + 5)
    assert [found.path for found in staged.containers] == ["a", "b"]
    assert (staged.containers[0].bytes, staged.containers[0].blobs, staged.containers[0].blob_bytes) == (30, 2, 20)
    done = finish(table, made.write_id, "20260101000000000")
    assert (done.state, done.instant, done.containers) == (COMMITTED, "20260101000000000", staged.containers)
    assert read_upload(table, made.write_id) == done
    assert finish(table, made.write_id, "20260101000000000") == done
    assert len(files(tmp_path, made)) == 4, "the second finish wrote nothing"


@pytest.mark.parametrize(
    ("state", "running"), [(OPEN, True), (STAGED, True), (PREPARED, True), (ABORTED, False), (COMMITTED, False)]
)
def test_who_may_still_commit(state: str, running: bool) -> None:
    upload = Upload("file:///t", "w", state, lease_until_ms=100)
    assert upload.may_commit(99) is running
    assert not upload.may_commit(100)


def test_a_lease_that_ran_out_stops_the_write_but_not_its_end(tmp_path: Path) -> None:
    table, made = str(tmp_path), opened(tmp_path)
    for step in (renew_lease, lambda *args, now_ms: stage(*args, [], now_ms=now_ms)):
        with pytest.raises(BlobWriteError, match=r"lease of upload .* ran out 0 ms ago"):
            step(table, made.write_id, now_ms=NOW + HOUR)
    assert len(files(tmp_path, made)) == 1
    assert finish(table, made.write_id, "1").state == COMMITTED


def test_a_prepared_upload_waits_seven_days_and_no_longer(tmp_path: Path) -> None:
    table, made = str(tmp_path), opened(tmp_path, prepared=True)
    assert made.state == PREPARED
    assert made.may_commit(NOW + 7 * DAY - 1)
    assert not made.may_commit(NOW + 7 * DAY)
    assert renew_lease(table, made.write_id, now_ms=NOW + 6 * DAY) == made
    assert not stage(table, made.write_id, [], now_ms=NOW + 6 * DAY).may_commit(NOW + 7 * DAY)
    assert finish(table, made.write_id, "1").state == COMMITTED


def test_what_has_ended_stays_so(tmp_path: Path) -> None:
    table = str(tmp_path)
    done, gone = opened(tmp_path), opened(tmp_path)
    finish(table, done.write_id, "5")
    assert abort(table, gone.write_id) == abort(table, gone.write_id)
    for step in (
        lambda: finish(table, done.write_id, "6"),
        lambda: abort(table, done.write_id),
        lambda: stage(table, done.write_id, [], now_ms=NOW),
        lambda: renew_lease(table, done.write_id, now_ms=NOW),
    ):
        with pytest.raises(BlobWriteError, match="is committed by instant 5 and cannot"):
            step()
    for step in (lambda: finish(table, gone.write_id, "6"), lambda: renew_lease(table, gone.write_id, now_ms=NOW)):
        with pytest.raises(BlobWriteError, match="is aborted and cannot"):
            step()


def test_a_clock_that_goes_back_shortens_no_lease(tmp_path: Path) -> None:
    table, made = str(tmp_path), opened(tmp_path)
    assert renew_lease(table, made.write_id, now_ms=NOW - DAY).lease_until_ms == made.lease_until_ms
    assert stage(table, made.write_id, [], now_ms=NOW - DAY).lease_until_ms == made.lease_until_ms


@pytest.mark.parametrize("late", [OPEN, STAGED])
def test_a_late_renewal_undoes_nothing(late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal read the manifest, then the write went on, then the renewal was published."""
    table, made = str(tmp_path), opened(tmp_path)
    if late == STAGED:
        stage(table, made.write_id, [container("a")], now_ms=NOW)
    before = read_upload(table, made.write_id)
    for _ in range(12):
        before = renew_lease(table, made.write_id, now_ms=before.lease_until_ms - 1)
    ahead = (
        stage(table, made.write_id, [container("a")], now_ms=before.lease_until_ms - 1)
        if late == OPEN
        else finish(table, made.write_id, "5")
    )
    monkeypatch.setattr(manifest, "read_upload", lambda *_, **__: before)
    renew_lease(table, made.write_id, now_ms=before.lease_until_ms - 1)
    monkeypatch.undo()
    assert read_upload(table, made.write_id) == ahead


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:40],
        lambda content: content[:-1],
        lambda content: content.replace(b"staged", b"opened"),
        lambda content: content.replace(b"HUDI-VECTOR", b"HUDI-VICTOR"),
        lambda content: content.replace(b" upload ", b" index "),
    ],
)
def test_a_damaged_file_is_passed_over(damage: object, tmp_path: Path) -> None:
    table, made = str(tmp_path), opened(tmp_path)
    stage(table, made.write_id, [], now_ms=NOW)
    newest = files(tmp_path, made)[-1]
    content = newest.read_bytes()
    newest.write_bytes(damage(content))  # type: ignore[operator]
    assert newest.read_bytes() != content
    assert read_upload(table, made.write_id) == made


def test_where_nothing_is_whole_doubt_keeps(tmp_path: Path) -> None:
    table, made = str(tmp_path), opened(tmp_path)
    files(tmp_path, made)[0].write_bytes(b"\0")
    [found] = list_uploads(table)
    assert found.state == UNREADABLE
    assert found.may_commit(NOW + 1000 * DAY)
    with pytest.raises(BlobWriteError, match="is unreadable and cannot go on"):
        renew_lease(table, made.write_id, now_ms=NOW)


def test_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    table, made = str(tmp_path), opened(tmp_path)
    newer = files(tmp_path, made)[0].with_name(f"{5:08d}-{'0' * 32}")
    newer.write_bytes(seal("upload", 2, {"all": "different"}))
    for read in (list_uploads, lambda table: read_upload(table, made.write_id)):
        with pytest.raises(
            UnsupportedTableError, match=rf"{newer.name}' has version 2 and this hudi-vector knows version 1"
        ):
            read(table)


def test_the_form_of_a_side_file() -> None:
    body = {"ü": [1, None, "x\n"], "a": {"b": 2}}
    content = seal("some-kind", 3, body)
    assert unseal("some-kind", 3, content, "u") == body
    assert unseal("other", 3, content, "u") is None


def test_a_crash_before_the_first_manifest_leaves_no_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", crash)
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path)
    assert list_uploads(str(tmp_path)) == []


@pytest.mark.parametrize("step", ["renew", "stage", "finish", "abort"])
def test_a_crash_while_publishing_leaves_the_state_before(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, made = str(tmp_path), opened(tmp_path)
    steps = {
        "renew": lambda: renew_lease(table, made.write_id, now_ms=NOW + 1),
        "stage": lambda: stage(table, made.write_id, [container("a")], now_ms=NOW + 1),
        "finish": lambda: finish(table, made.write_id, "5"),
        "abort": lambda: abort(table, made.write_id),
    }

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", crash)
    with pytest.raises(KeyboardInterrupt):
        steps[step]()
    monkeypatch.undo()
    assert read_upload(table, made.write_id) == made
    assert steps[step]() == read_upload(table, made.write_id) != made


def checksums(*rows: tuple[int, bytes]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "offset": [offset for offset, _ in rows],
            "length": [len(blob) for _, blob in rows],
            "checksum": [zlib.crc32(blob).to_bytes(4, "big") for _, blob in rows],
        }
    )


def test_checksums_lie_beside_the_manifest(tmp_path: Path) -> None:
    table, made = str(tmp_path), opened(tmp_path)
    batch = checksums((0, b"a"), (1, b"bc"))
    staged = stage(
        table, made.write_id, [container("a", checksum="crc32", checksums=batch), container("b")], now_ms=NOW
    )
    found = read_checksums(read_upload(table, made.write_id))
    assert found is not None
    assert found.to_pydict() == {"path": ["a", "a"], "method": ["crc32", "crc32"], **batch.to_pydict()}
    assert staged.checksums is not None
    side = next(file for file in files(tmp_path, made) if file.name == staged.checksums.name)
    side.write_bytes(side.read_bytes()[:-1])
    with pytest.raises(DataFileError, match="are damaged"):
        read_checksums(staged)
    side.unlink()
    with pytest.raises(DataFileError, match="cannot be read"):
        read_checksums(staged)


def test_without_checksums_there_is_no_file(tmp_path: Path) -> None:
    made = opened(tmp_path)
    staged = stage(str(tmp_path), made.write_id, [container("a")], now_ms=NOW)
    assert read_checksums(staged) is None
    assert len(files(tmp_path, made)) == 2


def test_the_clock_is_asked_where_no_time_is_given(tmp_path: Path) -> None:
    import time

    before = time.time() * 1000 - 1
    made = open_upload(str(tmp_path), {}, lease_ms=HOUR)
    assert before <= made.opened_ms <= time.time() * 1000
    assert renew_lease(str(tmp_path), made.write_id).lease_until_ms >= made.lease_until_ms
