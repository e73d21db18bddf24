"""One run at a time: a lease is held, renewed, followed and given back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from hudi_vector.errors import RefusedError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.side_files import publish
from hudi_vector.table_services.service_lease import LEASES, ServiceLease


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def lease_of(table: Path, clock: Clock, **more: object) -> ServiceLease:
    return ServiceLease(str(table), "clean", now_ms=clock, **{"lease_ms": 60_000, **more})


def names(table: Path) -> list[str]:
    return sorted(file.name for file in (table / LEASES / "clean").iterdir())


def until(true: Callable[[], bool]) -> None:
    """Wait for what comes, however busy the machine is."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


def test_a_second_run_is_told_who_holds_it_until_when(tmp_path: Path) -> None:
    clock = Clock()
    with lease_of(tmp_path, clock):
        with (
            pytest.raises(
                RefusedError,
                match=r"another clean of 'file:///.*' is under way: process \d+ of .+ on .+ holds its lease until "
                r"2023-11-14 22:14:20 UTC; wait until it has ended, or until then if that process died",
            ),
            lease_of(tmp_path, clock),
        ):
            raise AssertionError("two at once")
        with ServiceLease(str(tmp_path), "compact", now_ms=clock) as other:
            other.check()
        with lease_of(tmp_path / "other", clock):
            pass
    with lease_of(tmp_path, clock) as again:
        again.check()


def test_a_lease_leaves_nothing_behind(tmp_path: Path) -> None:
    clock = Clock()
    dead = lease_of(tmp_path, clock)
    dead.__enter__()
    dead._renewals.__exit__(None, None, None)  # its thread is gone with it
    clock.now += 60_000
    for _ in range(3):
        with lease_of(tmp_path, clock) as lease:
            lease.renew()
            lease.renew()
            assert len(names(tmp_path)) >= 3
        assert names(tmp_path) == [], "also what a dead run had left"


def test_who_comes_too_late_leaves_nothing_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find the lease free and publish; of two states of one generation the one with the greater name counts."""
    late, first = lease_of(tmp_path, Clock()), lease_of(tmp_path, Clock())
    publish_late = late._publish

    def named(number: str, publish: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(
                "hudi_vector.storage.side_files.uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=number))
            )
            publish()

    def first_comes_before(generation: int, until_ms: int) -> None:
        named("f" * 32, first.__enter__)
        named("0" * 32, lambda: publish_late(generation, until_ms))

    monkeypatch.setattr(late, "_publish", first_comes_before)
    with pytest.raises(RefusedError, match="another clean"):
        late.__enter__()
    assert names(tmp_path) == [f"00000000-{'f' * 32}"]
    first.check()
    first.__exit__(None, None, None)
    assert names(tmp_path) == []


def test_what_is_read_meanwhile_sees_what_was_there_when_the_lease_was_published(tmp_path: Path) -> None:
    with lease_of(tmp_path, Clock(), meanwhile=lambda: names(tmp_path)) as lease:
        assert len(lease.seen()) == 1


def test_what_is_left_to_the_end_is_done_when_the_lease_is_given_back(tmp_path: Path) -> None:
    done: list[int] = []
    with lease_of(tmp_path, Clock()) as lease:
        lease.at_release(lambda: done.append(1), lambda: done.append(2))
        assert done == []
    assert (done, names(tmp_path)) == ([1, 2], [])


def test_a_lease_is_renewed_while_its_run_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    begun = clock.now
    # It is renewed every 10 ms of real time, and holds for 30 ms of a time that waits for the renewals.
    with lease_of(tmp_path, clock, lease_ms=30) as lease:
        for _ in range(10):
            clock.now += 20
            lease.check()
            newest = names(tmp_path)[-1]
            # The first may have looked at the clock before it was moved.
            until(lambda newest=newest: int(names(tmp_path)[-1][:8], 10) >= int(newest[:8], 10) + 2)
        assert clock.now - begun == 200
        with pytest.raises(RefusedError, match="another clean"), lease_of(tmp_path, clock):
            pass


def test_a_run_that_died_is_followed(tmp_path: Path) -> None:
    clock = Clock()
    dead = lease_of(tmp_path, clock)
    dead.__enter__()
    clock.now += 59_999
    with pytest.raises(RefusedError, match="another clean"), lease_of(tmp_path, clock):
        pass
    clock.now += 1
    with lease_of(tmp_path, clock) as lease:
        lease.check()
        # It was no death, only a long pause: it finds out and stops, and gives back nothing that it does not hold.
        with pytest.raises(RefusedError, match="lost its lease: it was not renewed in time"):
            dead.check()
        with pytest.raises(RefusedError, match=r"lost its lease: process \d+ .* has taken it over"):
            dead.renew()
        dead.__exit__(None, None, None)
        lease.check()
        with pytest.raises(RefusedError, match="another clean"), lease_of(tmp_path, clock):
            pass


def test_a_lease_whose_files_are_gone_is_lost(tmp_path: Path) -> None:
    with lease_of(tmp_path, Clock()) as lease:
        for file in (tmp_path / LEASES / "clean").iterdir():
            file.unlink()
        with pytest.raises(RefusedError, match="lost its lease: its files are gone"):
            lease.renew()


def test_of_two_that_begin_at_once_the_loser_finds_out(tmp_path: Path) -> None:
    clock = Clock()
    storage, folder = open_storage("file:///", StorageOptions()), join(normalise(str(tmp_path)), LEASES, "clean")
    with lease_of(tmp_path, clock) as lease:
        body = {"owner": "other", "holder": "process 1 of you on there", "until_ms": clock.now + 60_000}
        publish(storage, folder, "lease", 1, 1, body)
        lease.check()
        with pytest.raises(RefusedError, match="process 1 of you on there has taken it over"):
            lease.renew()
        with pytest.raises(RefusedError, match="taken it over"):
            lease.check()
    assert len(names(tmp_path)) == 1, "the other's lease stays"


def test_a_damaged_lease_holds_nobody_up(tmp_path: Path) -> None:
    folder = tmp_path / LEASES / "clean"
    folder.mkdir(parents=True)
    (folder / f"00000007-{'0' * 32}").write_bytes(b"cut o")
    (folder / f".00000009-{'0' * 32}.tmp").write_bytes(b"somebody is just writing this")
    with lease_of(tmp_path, Clock()) as lease:
        lease.renew()
    assert f".00000009-{'0' * 32}.tmp" in names(tmp_path)


def test_the_lease_ends_with_a_failure_too(tmp_path: Path) -> None:
    clock = Clock()
    with pytest.raises(KeyboardInterrupt), lease_of(tmp_path, clock):
        raise KeyboardInterrupt
    with lease_of(tmp_path, clock):
        pass


def test_storage_that_fails_at_the_end_costs_only_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    lease = lease_of(tmp_path, clock)
    lease.__enter__()

    def broken(*_: object, **__: object) -> None:
        raise OSError("no network")

    with monkeypatch.context() as patch:
        patch.setattr("hudi_vector.storage.Storage.remove_all", broken)
        lease.__exit__(None, None, None)
    assert "runs out by itself: no network" in caplog.text
    with pytest.raises(RefusedError, match="another clean"), lease_of(tmp_path, clock):
        pass
