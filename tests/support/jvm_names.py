"""Which members of Java's classes the package asks for by name, read from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hudi_vector

__all__ = ["members"]

_PACKAGE = Path(hudi_vector.__file__).parent
_ROOTS = {"jvm", "_jvm"}


def members() -> dict[tuple[str, str], str]:
    """Return the classes and the members of them that are asked for, each with one place of the source.

    A class is known by its capital letter, as Java spells classes, or by the `$` of a package object of Scala. Its name is reached through dots from the JVM,
    through variables and attributes that hold a part of it, or through a text for `Handles.named`, `Handles.static` or
    `Handles.module`.
    """
    trees = {file: ast.parse(file.read_text()) for file in sorted(_PACKAGE.rglob("*.py"))}
    held: dict[str, list[str]] = {}
    for tree in trees.values():
        held.update(_held(tree))
    found: dict[tuple[str, str], str] = {}
    for file, tree in trees.items():
        for dotted, line in _chains(tree, held):
            first = next((at for at, part in enumerate(dotted) if part[:1].isupper() or part[-1:] == "$"), len(dotted))
            if first + 1 < len(dotted):
                found.setdefault((".".join(dotted[: first + 1]), dotted[first + 1]), f"{file.name}:{line}")
    return found


@dataclass
class _Names:
    """What variables, attributes and constants of a module stand for."""

    constants: dict[str, str]
    held: dict[str, list[str]] = field(default_factory=dict)
    local: dict[str, list[str]] = field(default_factory=dict)

    def dotted(self, node: ast.AST | None) -> list[str] | None:
        """The parts of a name below the JVM; None for whatever is no such name."""
        if isinstance(node, ast.Name):
            return [] if node.id in _ROOTS else self.local.get(node.id)
        if isinstance(node, ast.Attribute):
            if node.attr in _ROOTS:
                return []
            above = self.dotted(node.value)
            return self.held.get(node.attr) if above is None else [*above, node.attr]
        return self._called(node) if isinstance(node, ast.Call) else None

    def _called(self, node: ast.Call) -> list[str] | None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _ROOTS:
            return []
        text = self._text(node.args[-1]) if node.args else None
        if name == "named" and text is not None and "." in text:
            return text.split(".")
        if name == "module" and text is not None and "." in text:
            return [*f"{text}$".split("."), "MODULE$"]
        if name == "static" and text is not None:
            of = self._text(node.args[0])
            return None if of is None else [*of.split("."), text]
        if name == "getattr" and text is not None:
            above = self.dotted(node.args[0])
            return None if above is None else [*above, *text.split(".")]
        return None

    def _text(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name):
            return self.constants.get(node.id)
        if not isinstance(node, ast.JoinedStr):
            return None
        parts = [
            self._text(each)
            if isinstance(each, ast.Constant)
            else self.constants.get(getattr(getattr(each, "value", None), "id", ""))
            for each in node.values
        ]
        return None if None in parts else "".join(part for part in parts if part)


def _constants(tree: ast.Module) -> dict[str, str]:
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def _held(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Attributes and properties that hold a class: other modules ask these for its members."""
    names = _Names(_constants(tree))
    for node in ast.walk(tree):
        name, value = "", None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            name, value = node.targets[0].attr, node.value
        elif isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return):
            name, value = node.name, node.body[-1].value
        dotted = names.dotted(value)
        if dotted and dotted[-1][:1].isupper():
            yield name, dotted


def _chains(tree: ast.Module, held: dict[str, list[str]]) -> Iterator[tuple[list[str], int]]:
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        names = _Names(_constants(tree), held)
        for node in [node for node in ast.walk(function) if isinstance(node, ast.Assign)]:
            target, value = node.targets[0], node.value
            pair = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            several = zip(target.elts, value.elts, strict=True) if pair else [(target, value)]
            for each, given in several:
                dotted = names.dotted(given)
                if isinstance(each, ast.Name) and dotted is not None:
                    names.local[each.id] = dotted
        for node in ast.walk(function):
            dotted = names.dotted(node) if isinstance(node, (ast.Attribute, ast.Call)) else None
            if dotted:
                yield dotted, node.lineno
