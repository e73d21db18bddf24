"""The tests and examples that need PyTorch, and the record of their last run: ``make torch-test``.

PyPI's torch for Linux comes with 3 GB of CUDA, too much for every run of the tests. So it gets an environment of its own, which
sees the packages of the first one, and the result is kept in ``tests/torch.json`` with digests of what was tested.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

__all__ = ["RECORD", "digests"]

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "torch.json"
ENVIRONMENT = ROOT / ".venv-torch"
PACKAGES = ("torch>=2.1", "torchdata>=0.11")
TESTS = (
    "tests/unit/test_torch_datasets.py",
    "tests/docs/test_doctests.py::test_examples_on_tables[hudi_vector.integrations.torch]",
    "tests/docs/test_pages.py::test_a_page_runs[docs/how-to/train-with-blobs.md]",
)


def digests() -> dict[str, str]:
    """What decides the result, as it is now."""
    files = [
        ROOT / "hudi_vector/integrations/torch.py",
        ROOT / TESTS[0],
        *(ROOT / "hudi_vector/blobs/samples").glob("*.py"),
    ]
    return {
        file.relative_to(ROOT).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in sorted(files)
    }


def main() -> int:
    """Make the environment, run the tests in it and keep what came out."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=True)
        place = subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        )
        Path(place.strip(), "first.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", *PACKAGES], check=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        ran = subprocess.run(
            [python, "-m", "pytest", "-q", f"--junit-xml={report}", *TESTS], cwd=ROOT, env=environment, check=False
        )
        suite = next(ET.parse(report).iter("testsuite")).attrib
    record = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        **_counts(suite),
        "versions": _versions(python),
        "files": digests(),
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"Written: {RECORD.relative_to(ROOT)}")
    return ran.returncode


def _counts(suite: dict[str, str]) -> dict[str, int]:
    total, failed, skipped = int(suite["tests"]), int(suite["failures"]) + int(suite["errors"]), int(suite["skipped"])
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


def _versions(python: Path) -> dict[str, Any]:
    said = "import json, platform, importlib.metadata as m; print(json.dumps({'python': platform.python_version(), **{n: m.version(n) for n in ('torch', 'torchdata', 'numpy')}}))"
    found: dict[str, Any] = json.loads(subprocess.check_output([python, "-c", said], text=True))
    return found


if __name__ == "__main__":
    sys.exit(main())
