"""The public interface as text, so that a change of it shows in a change of `tests/fixtures/public-api.txt`.

``make api`` writes that file. It has one line for each public name, function and error, with signatures as they are written;
for each member of a class that a public function returns or takes options from, and of the classes that such members name;
and for each function of SQL.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, is_typeddict

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import hudi_vector as hv
from hudi_vector.errors import HudiVectorError

__all__ = ["RECORD", "lines"]

RECORD = Path(__file__).resolve().parents[1] / "fixtures" / "public-api.txt"
_ROOMS = {
    "hudi_vector": hv,
    "blobs": hv.blobs,
    "index": hv.index,
    "metrics": hv.metrics,
    "vectors": hv.vectors,
    "table_services": hv.table_services,
}
_STORES = ("haystack", "langchain", "llama_index", "ray")


def lines() -> list[str]:
    """Return the public interface, one line for each name, in order of names."""
    found: list[str] = []
    classes: dict[type, None] = {}
    for prefix, room in _ROOMS.items():
        for name in room.__all__:
            value = getattr(room, name)
            if inspect.isfunction(value):
                shown = name if room is hv else f"{prefix}.{name}"
                found.append(f"{shown}{_signature(value)}")
                classes.update(dict.fromkeys(_classes(value)))
            elif not inspect.ismodule(value) and not _is_error(value):
                found.append(name)
    found += [f"errors.{name}({', '.join(base.__name__ for base in value.__bases__)})" for name, value in _errors()]
    found += _members(classes)
    found += sorted({f"integrations.{line}" for name in _STORES for line in _of_store(name)})
    return sorted(found + _of_sql())


def _of_store(name: str) -> Iterator[str]:
    """Yield the public members of the classes that a store of another library has."""
    module = import_module(f"hudi_vector.integrations.{name}")
    for shown in module.__all__:
        made = inspect.unwrap(getattr(module, shown))
        yield f"{name}.{shown}{_signature(made.__init__).replace('self, ', '')}"
        own = [line for line, _ in _of_class(made) if ".model_post_init(" not in line]  # which pydantic adds
        yield from (f"{name}.{line}" for line in own)
        for options in _classes(made.__init__):
            yield from (line for line, _ in _of_class(options))


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, HudiVectorError)


def _errors() -> list[tuple[str, type]]:
    return [(name, getattr(hv.errors, name)) for name in hv.errors.__all__ if _is_error(getattr(hv.errors, name))]


def _members(classes: dict[type, None]) -> list[str]:
    """Return the lines of classes, and of those that their methods return or their fields hold, but not of what these hold."""
    inner: dict[type, None] = {}
    found: list[str] = []
    for shown in classes:
        for line, others in _of_class(shown):
            found.append(line)
            inner.update(dict.fromkeys(others))
    return found + [line for shown in inner if shown not in classes for line, _ in _of_class(shown)]


def _signature(function: Any) -> str:
    """Return a signature without the quotes that annotations have, which are texts until somebody asks for their types."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))


def _of_class(shown: type) -> Iterator[tuple[str, set[type]]]:
    """Yield the public members of a class: its fields, properties and methods, with the classes that each of them names."""
    fields = {field.name for field in dataclasses.fields(shown)} if dataclasses.is_dataclass(shown) else set()
    for name, kind in inspect.get_annotations(shown).items() if fields or is_typeddict(shown) else ():
        text = getattr(kind, "__forward_arg__", str(kind))
        if not name.startswith("_"):
            yield f"{shown.__name__}.{name}: {text}", set(_named(text, shown.__module__))
    for name, value in vars(shown).items():
        function = value.fget if isinstance(value, property) else value
        if not name.startswith("_") and name not in fields and inspect.isfunction(function):
            result = inspect.signature(function).return_annotation
            text = f": {result}" if isinstance(value, property) else _signature(function)
            yield f"{shown.__name__}.{name}{text}", set(_classes(function))


def _classes(function: Any) -> Iterator[type]:
    """Yield the classes of this package that a function takes as options or returns."""
    signature = inspect.signature(function)
    options = [p.annotation for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    for annotation in [signature.return_annotation, *options]:
        yield from _named(str(annotation), inspect.unwrap(function).__module__)


def _named(annotation: str, module: str) -> Iterator[type]:
    """Yield the public classes of this package that an annotation names, as its module knows them."""
    for name in re.findall(r"[A-Za-z_]\w*", annotation):
        home = import_module(module)
        value = getattr(home, name, None) or _imported_for_types(home).get(name)
        is_own = isinstance(value, type) and value.__module__.startswith("hudi_vector.")
        if is_own and not hasattr(builtins, name) and not name.startswith("_") and not _is_error(value):
            yield value


@cache
def _imported_for_types(module: ModuleType) -> dict[str, Any]:
    """Return the names of this package that a module imports for its annotations alone."""
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("hudi_vector"):
            for alias in node.names:
                found[alias.asname or alias.name] = getattr(import_module(str(node.module)), alias.name, None)
    return found


def _of_sql() -> list[str]:
    from hudi_vector.sql.functions import FUNCTIONS, TABLE_FUNCTIONS

    return [f"SQL {name}" for name in (*FUNCTIONS, *TABLE_FUNCTIONS)]


if __name__ == "__main__":
    RECORD.write_text("\n".join(lines()) + "\n", encoding="utf-8")
