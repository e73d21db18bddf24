"""Build the sdist and the wheel, install each in an empty environment, and run the command there; before, check the release.

    python tests/smoke/release.py [--unreleased]

The version of `hudi_vector/version.py` must have its section in CHANGELOG.md, no change may be left above it, every file must
be committed, and a tag of this commit that begins with ``v`` must name that version. With ``--unreleased`` none of these is
looked at. What was built lies in ``dist/``. Needs the library `build` and what pip can reach.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def version() -> str:
    """Return the version, which is written in one place."""
    (found,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "hudi_vector" / "version.py").read_text("utf-8"), re.M)
    return found


def faults_of_changelog(text: str, released: str) -> list[str]:
    """Return what keeps a changelog from being that of a release, in sentences."""
    sections = re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, re.M)
    heads = [head for head, _ in sections if head != "Unreleased"]
    faults = []
    if not heads or not re.fullmatch(re.escape(released) + r" - \d{4}-\d\d-\d\d", heads[0]):
        faults.append(f"CHANGELOG.md has no newest section '## {released} - YYYY-MM-DD'; cut it from '## Unreleased'")
    if any(head == "Unreleased" and body.strip() for head, body in sections):
        faults.append(f"CHANGELOG.md has changes below '## Unreleased'; move them to the section of {released}")
    return faults


def faults_of_commit(released: str) -> list[str]:
    """Return what keeps this commit from being that of a release, in sentences."""
    changed = _git("status", "--porcelain")
    tags = [tag for tag in _git("tag", "--points-at", "HEAD").split() if re.match(r"v\d", tag)]
    faults = [f"these files are not committed:\n{changed.rstrip()}"] if changed else []
    if tags and tags != [f"v{released}"]:
        faults.append(f"the commit has the tag {', '.join(tags)}, and hudi_vector/version.py says {released}")
    return faults


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def build() -> list[Path]:
    """Build the sdist, and the wheel from the sdist, into an empty ``dist/``."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(ROOT / "dist"), str(ROOT)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return sorted((ROOT / "dist").iterdir())


def installed_version(archive: Path) -> str:
    """Return what `hudi-vector --version` prints where nothing but this archive and its dependencies is installed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/env"], check=True)
        pip = [f"{folder}/env/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-compile", str(archive)], check=True, cwd=folder, env=environment)
        command = [f"{folder}/env/bin/hudi-vector", "--version"]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=folder, env=environment
        ).stdout.strip()


def main(arguments: list[str]) -> int:
    """Check, build and install; print one line for each step, and return 0 if all is well."""
    released = version()
    faults = []
    if arguments != ["--unreleased"]:
        faults = faults_of_changelog((ROOT / "CHANGELOG.md").read_text("utf-8"), released) + faults_of_commit(released)
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        return 1
    for archive in build():
        shown = installed_version(archive)
        print(f"{archive.relative_to(ROOT)}: {shown}", flush=True)
        if shown != f"hudi-vector {released}":
            print(f"expected 'hudi-vector {released}'", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
