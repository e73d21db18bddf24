"""The error tree is as its docstring draws it."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from hudi_vector import errors
from hudi_vector.errors import HudiVectorError, MissingDependencyError, UnknownColumnError, WriteError
from hudi_vector.writing.failures import in_one_sentence

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_is_in_the_tree(error: type[Exception]) -> None:
    assert issubclass(error, HudiVectorError)
    assert error.__name__ in errors.__all__
    assert error.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.InvalidArgumentError, ValueError),
        (errors.UnknownColumnError, ValueError),
        (errors.DimensionMismatchError, ValueError),
        (errors.InvalidVectorError, ValueError),
        (errors.InvalidFilterError, ValueError),
        (errors.InvalidOptionError, ValueError),
        (errors.InvalidTypeError, TypeError),
        (errors.TableNotFoundError, LookupError),
        (errors.InstantNotAvailableError, LookupError),
        (errors.DataFileError, OSError),
        (errors.SessionError, RuntimeError),
        (errors.MissingDependencyError, ImportError),
    ],
)
def test_errors_are_what_python_expects(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)
    assert str(error("a sentence")) == "a sentence"


@pytest.mark.parametrize(
    ("column", "names", "message"),
    [
        ("pirce", ["id", "Price", "name"], "column 'pirce' does not exist in 't'; did you mean 'Price'?"),
        ("nam", ["name", "names"], "column 'nam' does not exist in 't'; did you mean 'name' or 'names'?"),
        ("zzz", ["id", "name"], "column 'zzz' does not exist in 't'; its columns are id, name"),
    ],
)
def test_an_unknown_column_names_the_nearest(column: str, names: list[str], message: str) -> None:
    assert str(UnknownColumnError.of(column, names, "t")) == message


def test_many_columns_are_not_all_listed() -> None:
    assert str(UnknownColumnError.of("zzz", [f"c{i}" for i in range(30)], "t")).endswith("c19, …")


def test_a_missing_package_names_its_extra() -> None:
    message = str(MissingDependencyError.of("matplotlib", "demo", "the picture"))
    assert message == "the picture needs 'matplotlib': install it with pip install 'hudi-vector[demo]'"


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError("\n  \n two \n"), "two"),
        (ValueError(""), "ValueError"),
        (OSError(), "OSError"),
        (KeyError(), "KeyError"),
        (Exception("\u2028"), "Exception"),
    ],
)
def test_the_first_line_of_a_message_that_may_be_empty(problem: Exception, line: str) -> None:
    assert errors.first_line(problem) == line


def test_nobody_takes_the_first_line_of_what_may_have_none() -> None:
    package = Path(errors.__file__).parent
    found = [str(file) for file in package.rglob("*.py") if re.search(r"splitlines\(\)\[", file.read_text("utf-8"))]
    assert not found


def test_the_kind_of_a_value_names_its_package() -> None:
    assert errors.kind_of(3) == "int"
    assert errors.kind_of(pa.table({})) == "pyarrow.lib.Table"


def test_extras_that_messages_name_are_there() -> None:
    root = Path(errors.__file__).parents[1]
    extras = set(re.findall(r"^(\w+) = \[", (root / "pyproject.toml").read_text("utf-8"), re.MULTILINE))
    named = set()
    for file in (root / "hudi_vector").rglob("*.py"):
        text = file.read_text("utf-8")
        named |= {(name, file.name) for name in re.findall(r"hudi-vector\[(\w+)\]", text)}
        named |= {(name, file.name) for name in re.findall(r'MissingDependencyError\.of\("[\w-]+", "(\w+)"', text)}
    assert named
    assert {(name, file) for name, file in named if name not in extras} == set()


THINGS = (
    "rows|keys|queries|files|vectors|elements|commits|columns|groups|values|indexes|containers|segments|blobs|requests"
)
NEVER_ONE = {
    "blobs/uploads/side_tables.py",  # of a damaged file, which would become too large
    "command/cells.py",  # of a list that is cut off
    "index/kinds/segment.py",  # of a damaged file
    "query/grouping/arguments.py",  # where it is not 1
    "shown.py",  # of what is cut off
    "spark/hybrid/batch.py",  # "dense vectors": a text
    "streaming/asking.py",  # where it is not 1
    "table/deleted_rows.py",  # of two numbers that differ
    "writing/request.py",  # the most that Hudi allows
}


def test_a_number_goes_with_the_noun_that_it_counts() -> None:
    package = Path(errors.__file__).parent
    wrong = set()
    for path in package.rglob("*.py"):
        for text in ast.walk(ast.parse(path.read_text("utf-8"))):
            for number, noun in itertools.pairwise(text.values if isinstance(text, ast.JoinedStr) else ()):
                is_constant = isinstance(number, ast.FormattedValue) and ast.unparse(number.value).isupper()
                if isinstance(noun, ast.Constant) and isinstance(number, ast.FormattedValue) and not is_constant:
                    counts = (
                        re.match(rf" ((data|base|record|search|query|inline|whole|file) )?({THINGS})\b", noun.value)
                        and not number.format_spec
                    )
                    if counts and "number_of" not in ast.unparse(number.value):
                        wrong.add(path.relative_to(package).as_posix())
    assert wrong == NEVER_ONE, "write number_of(count, 'row') in place of {count} rows"
    assert [errors.number_of(2, noun) for noun in ("key", "query", "index", "batch")] == [
        "2 keys", "2 queries", "2 indexes", "2 batches",
    ]  # fmt: skip


def test_a_lost_conflict_of_writers_says_what_to_do() -> None:
    hudi = "o.save.\n: org.apache.hudi.exception.HoodieWriteConflictException: java.util.ConcurrentModificationException: C"
    with (
        pytest.raises(WriteError, match=r"^the write to 't' failed: another writer .* committed first; run it again$"),
        in_one_sentence("the write to 't' failed"),
    ):
        raise PySparkException(hudi)
