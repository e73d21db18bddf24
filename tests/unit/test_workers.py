"""What a worker does so that its next tasks begin earlier."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hudi_vector.workers import forget_archives


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Archives that Python has looked in: a jar, one that the process began with, and one that came later."""
    made = {name: tmp_path / name for name in ("some.jar", "first.zip", "later.zip")}
    for name, path in made.items():
        stem = name.replace(".", "_")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{stem}_one.py", "value = 1")
            archive.writestr(f"{stem}_two.py", "value = 2")
        monkeypatch.syspath_prepend(str(path))
        for module in (f"{stem}_one", f"{stem}_two"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        assert importlib.import_module(f"{stem}_one").value == 1
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(made["first.zip"]), str(tmp_path)]))
    assert {str(path) for path in made.values()} <= set(sys.path_importer_cache)
    return made


def test_archives_that_do_not_change_are_not_read_before_the_next_task(archives: dict[str, Path]) -> None:
    forget_archives()
    kept = {name for name, path in archives.items() if str(path) in sys.path_importer_cache}
    assert kept == {"later.zip"}, "it may be replaced while the process runs"


def test_modules_of_forgotten_archives_are_found(archives: dict[str, Path]) -> None:
    forget_archives()
    found = [importlib.import_module(f"{name.replace('.', '_')}_two").value for name in archives]
    assert found == [2, 2, 2]


def test_folders_are_kept(archives: dict[str, Path]) -> None:
    folders = {place for place in sys.path_importer_cache if os.path.isdir(place)}
    forget_archives()
    assert folders
    assert folders <= set(sys.path_importer_cache)


_PREPARED = """
import gc, socket
from hudi_vector.workers import begin_task

server = socket.create_server(("127.0.0.1", 0))
asking = socket.create_connection(server.getsockname())
answering, _ = server.accept()

def is_at_once():
    for _ in range(8):  # Linux sees that each message is answered, and holds acknowledgements back
        asking.sendall(b"task")
        answering.recv(16)
        answering.sendall(b"answer")
        asking.recv(16)
    held = answering.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    gc.collect()
    return held, answering.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)

print(is_at_once(), gc.get_freeze_count())
for _ in range(3):
    begin_task()
print(is_at_once(), gc.get_freeze_count() > 1000, len(gc.callbacks))
answering.close()
gc.collect()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process choose when it acknowledges")
def test_a_worker_acknowledges_its_next_task_at_once_and_collects_little() -> None:
    run = subprocess.run([sys.executable, "-c", _PREPARED], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["(0, 0) 0", "(0, 1) True 1"]
    assert not run.stderr
