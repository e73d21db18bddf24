"""Avro schemas with full type names, which resolve the names that Hudi writes as Java does."""

from __future__ import annotations

from typing import Any

__all__ = ["with_full_names"]

_NAMED = frozenset({"record", "error", "enum", "fixed"})
# Types without a namespace get this one, which no schema uses: fastavro cannot refer to them from another namespace.
_NO_SPACE = "_"


def with_full_names(schema: Any) -> Any:
    """Return an Avro schema, given as parsed JSON, in which all definitions and references use full names.

    Java looks a name up in the enclosing namespace and then in the empty one. Hudi relies on that: its type ``blob``
    has no namespace, is defined inside a record that has one, and is referred to as ``blob`` by a second blob column.
    The result has names that any parser resolves.

    Example:
        >>> enum = {"type": "enum", "name": "e", "namespace": "", "symbols": ["A"]}
        >>> fields = [{"name": "one", "type": enum}, {"name": "two", "type": "e"}]
        >>> with_full_names({"type": "record", "name": "n.r", "fields": fields})["fields"][1]["type"]
        '_.e'
    """
    return _renamed(schema, "", set())


def _renamed(node: Any, space: str, defined: set[str]) -> Any:
    if isinstance(node, str):
        candidates = (_full(node, space), _full(node.lstrip("."), ""))
        return next((name for name in candidates if name in defined), node)
    if isinstance(node, list):
        return [_renamed(branch, space, defined) for branch in node]
    made = dict(node)
    if made["type"] in _NAMED:
        name, own = made["name"], made.pop("namespace", space)
        own = name.rpartition(".")[0] if "." in name else own
        made["name"] = _full(name, own)
        defined.add(made["name"])
        space = own
    if made["type"] in ("record", "error"):
        made["fields"] = [{**field, "type": _renamed(field["type"], space, defined)} for field in made["fields"]]
    for inner in ("items", "values"):
        if inner in made:
            made[inner] = _renamed(made[inner], space, defined)
    if not isinstance(made["type"], str) or made["type"] not in (*_NAMED, "array", "map"):
        made["type"] = _renamed(made["type"], space, defined)
    return made


def _full(name: str, space: str) -> str:
    return name if "." in name else f"{space or _NO_SPACE}.{name}"
