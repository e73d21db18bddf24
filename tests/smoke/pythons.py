"""Install the plain package under several Pythons, each in a fresh environment, and run the smoke suite there.

    python tests/smoke/pythons.py 3.10 3.13 /opt/python/bin/python3.12

A version is looked for among those of pyenv, then on the PATH (``python3.13``); a path is taken as it is. Needs nothing
but the standard library of any Python since 3.10, and what pip can reach.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "*.egg-info", "*-output", "spark-warehouse"
)  # fmt: skip
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def interpreter(asked: str) -> Path | None:
    """The interpreter of a version such as ``3.12``, or the one at a path; None where none runs."""
    if os.sep in asked:
        return Path(asked) if _version_of(Path(asked)) else None
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    newest = sorted(pyenv.glob(f"versions/{asked}.*/bin/python"), key=lambda path: _number(path.parents[1].name))
    on_path = shutil.which(f"python{asked}")
    found = [*reversed(newest), *([Path(on_path)] if on_path else [])]
    return next((path for path in found if _version_of(path) == asked), None)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _version_of(path: Path) -> str | None:
    """What an interpreter says of itself; a shim of pyenv is there without one."""
    try:
        ran = subprocess.run([str(path), "-c", _VERSION], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.strip()


def smoke(python: Path) -> bool:
    """Whether the package installs under an interpreter and does there what it must."""
    # Neither this environment's packages nor its settings of Spark may be found from the new one.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
    with tempfile.TemporaryDirectory() as folder:
        # A copy, since pip leaves its build in the folder that it installs from.
        shutil.copytree(ROOT, f"{folder}/source", symlinks=True, ignore=_LEFT_OUT)
        home = Path(folder, "env", "bin", "python")
        commands = (
            [python, "-m", "venv", f"{folder}/env"],
            [home, "-m", "pip", "install", "--quiet", f"{folder}/source"],
            [home, f"{folder}/source/tests/smoke/smoke.py", f"{folder}/source/README.md"],
        )
        return all(
            subprocess.run([str(part) for part in command], check=False, cwd=folder, env=environment).returncode == 0
            for command in commands
        )


def main(asked: Sequence[str]) -> int:
    """Run the smoke suite under each interpreter.

    Args:
        asked: Versions such as ``3.12``, or paths of interpreters.

    Returns:
        0 if all are well, else 1.
    """
    pythons = {name: interpreter(name) for name in asked}
    absent = [name for name, path in pythons.items() if path is None]
    if absent or not pythons:
        print(
            f"no Python {' and no Python '.join(absent) or 'was named'}"
            + (" was found by pyenv or on the PATH" if absent else "")
            + "; install it, or name those to test: make test-pythons PYTHONS='3.11 /path/to/python3.12'",
            file=sys.stderr,
        )
        return 1
    failed = [name for name, path in pythons.items() if path is not None and not smoke(path)]
    for name in failed:
        print(f"the smoke suite failed under Python {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
