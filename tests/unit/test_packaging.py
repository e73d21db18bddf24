"""The built wheel and sdist: what is in them, and that they work elsewhere."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from support.written_table import WrittenTable, brute_force, rows_of

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "*.egg-info", "*-output", "*.jar",
    "spark-warehouse", "metastore_db", "derby.log",
)  # fmt: skip
_QUERY = [0.3, -0.2, 0.9, 0.1]


def _build(folder: Path, *arguments: str) -> None:
    isolation = ["--no-isolation"] if _setuptools() >= 77 else []
    ran = subprocess.run(
        [sys.executable, "-m", "build", *isolation, *arguments, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]


def _setuptools() -> int:
    try:
        return int(importlib.metadata.version("setuptools").split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return 0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel made from it, and in ``tree`` the wheel made from the working tree."""
    work = tmp_path_factory.mktemp("packaging")
    shutil.copytree(ROOT, work / "source", symlinks=True, ignore=_LEFT_OUT)
    out = work / "out"
    _build(work / "source", "--outdir", str(out))  # the sdist, and the wheel from the sdist
    _build(work / "source", "--wheel", "--outdir", str(out / "tree"))
    return out


def _wheel(folder: Path) -> Path:
    (found,) = folder.glob("*.whl")
    return found


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    names = set(_contents(_wheel(built)))
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"hudi_vector"}
    others = {"bundles.toml", "py.typed", "spark/blobs/LateBlobs.java", "spark/catalyst/LazyTable.java"}
    assert {f"hudi_vector/{name}" for name in others} <= names
    source = built.parent / "source"
    sources = {str(path.relative_to(source)) for path in (source / "hudi_vector").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_tree(built: Path) -> None:
    from_sdist, from_tree = _contents(_wheel(built)), _contents(_wheel(built / "tree"))
    assert from_sdist.keys() == from_tree.keys()
    for name, content in from_sdist.items():
        if not name.endswith("/RECORD"):
            assert content == from_tree[name], name
    assert b'spark."3.5"' in from_sdist["hudi_vector/bundles.toml"]


def test_the_sdist_holds_the_tests_and_no_broken_links(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    wanted = ["README.md", "LICENSE", "pyproject.toml", "tests/conftest.py", "tests/unit/test_packaging.py"]
    assert not [name for name in wanted if name not in members]
    for name, member in members.items():
        if member.issym():
            assert not os.path.isabs(member.linkname)
            target = os.path.normpath(os.path.join(os.path.dirname(name), member.linkname))
            assert target in members or any(other.startswith(target + "/") for other in members), name


def test_the_metadata_names_the_pythons_that_are_tried(built: Path) -> None:
    (metadata,) = [
        text.decode() for name, text in _contents(_wheel(built)).items() if name.endswith(".dist-info/METADATA")
    ]
    tried = re.findall(r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[0].split()
    named = re.findall(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", metadata, re.MULTILINE)
    assert named == tried
    # pyspark 3.5 imports distutils.
    (declared,) = re.findall(r"^Requires-Dist: (setuptools.*)$", metadata, re.MULTILINE)
    assert declared.replace("'", '"') == 'setuptools>=69; python_version >= "3.12"'
    assert f"Python {tried[0]} to {tried[-1]} with `venv`" in (ROOT / "README.md").read_text("utf-8")


def test_a_python_that_is_not_there_is_named() -> None:
    command = [sys.executable, str(ROOT / "tests" / "smoke" / "pythons.py"), "3.99", "/no/such/python"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == (
        "no Python 3.99 and no Python /no/such/python was found by pyenv or on the PATH; "
        "install it, or name those to test: make test-pythons PYTHONS='3.11 /path/to/python3.12'\n"
    )


def test_the_metadata_bears_the_version(built: Path) -> None:
    import hudi_vector as hv

    (metadata,) = [
        text.decode() for name, text in _contents(_wheel(built)).items() if name.endswith(".dist-info/METADATA")
    ]
    assert f"\nVersion: {hv.__version__}\n" in metadata
    assert f"hudi_vector-{hv.__version__}-py3-none-any.whl" == _wheel(built).name


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a fresh environment: this wheel, and the libraries of the running environment."""
    home = tmp_path_factory.mktemp("installed") / "env"
    venv.create(home, with_pip=False)
    purelib = next((home / "lib").glob("python*/site-packages"))
    # The package is installed first, so that it is found before an editable install of the running environment.
    command = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--no-deps"]
    # Modules are compiled where they are imported, which most are not.
    ran = subprocess.run(
        [*command, "--quiet", "--no-compile", str(_wheel(built))], capture_output=True, text=True, check=False, cwd=home
    )
    assert ran.returncode == 0, ran.stderr
    (purelib / "zz_libraries.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return home / "bin"


def _run(binary: Path, *arguments: str, folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    ran = subprocess.run(
        [str(binary), *arguments], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_command_works_elsewhere(installed: Path, tmp_path: Path) -> None:
    import hudi_vector as hv

    assert _run(installed / "hudi-vector", "--version", folder=tmp_path) == f"hudi-vector {hv.__version__}\n"
    assert "hudi-spark3.5-bundle_2.12" in _run(installed / "hudi-vector", "bundles", folder=tmp_path)


def test_a_search_works_elsewhere(installed: Path, tmp_path: Path) -> None:
    rows = rows_of(30)
    table = WrittenTable(tmp_path / "t")
    table.commit({("a", "f1"): rows})
    code = (
        "import hudi_vector\n"
        f"with hudi_vector.open({str(table.path)!r}, column='emb') as table:\n"
        f"    found = table.search({_QUERY}, 3, metric='l2', columns=['_hoodie_record_key'])\n"
        "print(hudi_vector.__file__); print(found.column('_hoodie_record_key').to_pylist())"
    )
    where, keys = _run(installed / "python", "-c", code, folder=tmp_path).splitlines()
    assert Path(where).is_relative_to(installed.parent)
    assert keys == str([key for _, key, _ in brute_force(rows, _QUERY, 3)])
