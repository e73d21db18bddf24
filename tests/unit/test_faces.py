"""What users see of the package without a search: help, completion, signatures, and types."""

from __future__ import annotations

import ast
import inspect
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

import hudi_vector as hv
from hudi_vector.query.opened.vector_table import SearchHits, VectorTable
from hudi_vector.spark.join.api import JoinedFrame
from hudi_vector.spark.search import api
from hudi_vector.writing import writer

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("blobs", "index", "metrics", "table_services", "vectors")


@pytest.mark.parametrize(("name", "function"), [("search", api.search), ("write", writer.write)])
def test_search_and_write_are_functions(name: str, function: object) -> None:
    shown = getattr(hv, name)
    assert shown is function
    assert inspect.isfunction(shown)
    assert pickle.loads(pickle.dumps(shown)) is function
    assert cloudpickle.loads(cloudpickle.dumps(shown)) is function
    text = pydoc.plain(pydoc.render_doc(shown))
    assert str(inspect.signature(function)).partition(",")[0] in text  # the arguments,
    assert str(function.__doc__).partition("\n")[0] in text  # and what it does


@pytest.mark.parametrize("statement", ["import hudi_vector.query.merge", "import hudi_vector.writing.target"])
def test_importing_a_module_of_their_rooms_changes_neither(statement: str) -> None:
    code = f"import hudi_vector as hv\n{statement}\nprint(type(hv.search).__name__, type(hv.write).__name__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "function function\n"


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_shows_its_public_functions_alone(name: str) -> None:
    room = getattr(hv, name)
    assert dir(room) == sorted(room.__all__)
    listed = [line.split()[0] for line in room.__doc__.splitlines() if line.startswith("    ")]
    assert sorted(listed) == sorted(room.__all__)
    text = pydoc.plain(pydoc.render_doc(room))
    for function in room.__all__:
        assert f"\n    {function}" in text.partition("FUNCTIONS")[2]


def test_a_fresh_process_completes_the_names_of_rooms() -> None:
    code = (
        "import hudi_vector as hv; rooms = (hv.blobs, hv.index, hv.metrics, hv.table_services, hv.vectors)\n"
        "print([dir(room) for room in rooms])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ast.literal_eval(ran.stdout) == [sorted(getattr(hv, room).__all__) for room in ROOMS]


def test_errors_are_there_after_the_import_of_the_package() -> None:
    code = "import hudi_vector as hv; print(issubclass(hv.errors.RefusedError, hv.HudiVectorError))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "True\n"


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("serach", "search"),
        ("blob", "blobs"),
        ("HudivectorError", "HudiVectorError"),
        ("blobs.verfy", "verify"),
        ("index.creat", "create"),
        ("table_services.clean_blob", "clean_blobs"),
        ("table_services.maintian", "maintain"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(path: str, near: str) -> None:
    owner, _, name = path.rpartition(".")
    module = getattr(hv, owner) if owner else hv
    with pytest.raises(
        AttributeError, match=rf"^module '{module.__name__}' has no attribute '{name}'; did you mean"
    ) as it:
        getattr(module, name)
    assert str(it.value).endswith(f"did you mean '{near}'?")


_PUBLIC = {
    f"{prefix}{name}": value
    for prefix, room in (("", hv), *((f"{room}.", getattr(hv, room)) for room in ROOMS))
    for name, value in ((name, getattr(room, name)) for name in room.__all__)
    if inspect.isfunction(value)
}


@pytest.mark.parametrize("name", sorted(_PUBLIC.keys() - {"explain"}))
def test_a_misspelt_argument_is_answered_with_the_nearest(name: str) -> None:
    function = _PUBLIC[name]
    known = next(iter(inspect.signature(function).parameters))
    with pytest.raises(
        hv.errors.InvalidTypeError, match=f"^{function.__name__} has no argument '{known}x'; did you mean"
    ):
        function(**{f"{known}x": None})


@pytest.mark.parametrize("name", sorted(_PUBLIC))
def test_every_public_function_shows_an_example(name: str) -> None:
    assert "    Example:\n" in str(_PUBLIC[name].__doc__)
    assert ">>> " in str(_PUBLIC[name].__doc__)


@pytest.mark.parametrize("shown", [VectorTable, SearchHits, JoinedFrame])
def test_every_method_of_a_public_class_shows_an_example(shown: type) -> None:
    members = {name: value.__doc__ for name, value in vars(shown).items() if not name.startswith("_") and value.__doc__}
    assert members
    assert not [name for name, text in [("", shown.__doc__), *members.items()] if ">>> " not in str(text)]


_VOCABULARY = (
    "table",
    "column",
    "query",
    "queries",
    "k",
    "metric",
    "filter",
    "columns",
    "mode",
    "recall_target",
    "as_of",
)
_SEARCHES = [name for name in sorted(_PUBLIC) if not name.startswith(("blobs.", "read_blob", "nearest_by"))]


@pytest.mark.parametrize("name", [*_SEARCHES, "VectorTable.search", "VectorTable.search_batch"])
def test_functions_share_one_vocabulary_in_one_order(name: str) -> None:
    function = _PUBLIC.get(name) or getattr(VectorTable, name.rpartition(".")[2])
    parameters = inspect.signature(function).parameters
    known = [each for each in parameters if each in _VOCABULARY]
    assert known == sorted(known, key=_VOCABULARY.index)
    behind_k = [each for each in known if _VOCABULARY.index(each) > _VOCABULARY.index("k")]
    if "column" in known:
        assert all(parameters[each].kind is inspect.Parameter.KEYWORD_ONLY for each in behind_k)


def test_explain_answers_for_the_search_it_explains() -> None:
    with pytest.raises(
        hv.errors.InvalidTypeError, match=r"^search_batch has no argument 'querys'; did you mean 'queries'"
    ):
        hv.explain(hv.search_batch, querys=[])


@pytest.mark.parametrize("name", ["__wrapped__", "zzz"])
def test_a_name_like_no_other_gets_no_advice(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^module 'hudi_vector' has no attribute '{name}'$"):
        getattr(hv, name)


_RIGHT = """
import hudi_vector as hv
from pyspark.sql import DataFrame, SparkSession

def right(spark: SparkSession, df: DataFrame) -> None:
    hv.index.create(spark, "t", "embedding")
    hv.table_services.clean_blobs(spark, "t", dry_run=True)
    hv.search(spark, "t", "embedding", [1.0], k=3)
    hv.write(df, "t", record_key="id")
    try:
        hv.blobs.verify(spark, "t")
    except (hv.HudiVectorError, hv.errors.RefusedError):
        pass
"""

# Each of these lines is wrong in its own way.
_WRONG = (
    "hv.index.create(spark, 't', 7)",
    "hv.index.creat(spark, 't', 'embedding')",
    "hv.index.recall(spark, 't', 'embedding', kk=7)",
    "hv.blobs.verify(spark)",
    "hv.blobs.open(7, 8, 9, 10)",
    "hv.table_services.clean_blobs(spark, 't', dry_runn=True)",
    "hv.table_services.maintain(spark, 7)",
    "hv.search(spark, 't', 'embedding', [1.0], k='ten')",
    "hv.serach(spark)",
    "hv.write(df, 't', record_key='id', vectors=7)",
    "hv.errors.RefusdError",
)


def test_mypy_sees_wrong_arguments(tmp_path: Path) -> None:
    head = _RIGHT + "\ndef wrong(spark: SparkSession, df: DataFrame) -> None:\n"
    snippet = tmp_path / "snippet.py"
    snippet.write_text(head + "".join(f"    {line}\n" for line in _WRONG))
    # The cache of `make lint` makes this quick.
    command = ["-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(snippet)]
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=ROOT)
    numbers = {int(line.split(":")[1]) for line in ran.stdout.splitlines() if ": error:" in line}
    first = head.count("\n") + 1
    assert numbers == set(range(first, first + len(_WRONG))), ran.stdout + ran.stderr
