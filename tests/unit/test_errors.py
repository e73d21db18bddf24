"""The error tree is as its docstring draws it."""

from __future__ import annotations

import inspect

import pytest

from hudi_vector import errors
from hudi_vector.errors import HudiVectorError, MissingDependencyError, UnknownColumnError

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
