"""An inventory as a picture: one bar of bytes for each column and partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hudi_vector.errors import InvalidArgumentError, MissingDependencyError

__all__ = ["DEAD", "bars", "draw", "require_matplotlib"]

DEAD = "dead"
_COLOURS = {"inline": "#4477aa", "managed": "#228833", "external": "#ccbb44", DEAD: "#bbbbbb"}
_MOST_BARS = 40
_MIB = 1 << 20


def require_matplotlib() -> None:
    """Refuse to begin what could not be drawn at its end.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as absent:
        raise MissingDependencyError.of("matplotlib", "demo", "a picture of an inventory") from absent


def bars(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """The bytes of each kind, and those that are dead, by column and partition.

    Args:
        rows: Rows of an inventory.

    Returns:
        Bytes by kind by label; the largest bars, the others added up in one.

    Example:
        >>> row = {"column": "img", "partition": "d=1", "kind": "managed", "bytes": 10, "dead_bytes": 2}
        >>> bars([row, row])
        {'img d=1': {'managed': 20, 'dead': 4}}
    """
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        label = " ".join(part for part in (row["column"], row["partition"]) if part) or "files of no column"
        bar = found.setdefault(label, {})
        for kind, size in ((row["kind"], row["bytes"]), (DEAD, row["dead_bytes"])):
            if size:
                bar[kind] = bar.get(kind, 0) + size
    largest = sorted(found, key=lambda label: -sum(found[label].values()))
    shown = {label: found[label] for label in largest[:_MOST_BARS]}
    rest = [found[label] for label in largest[_MOST_BARS:]]
    if rest:
        shown[f"{len(rest)} others"] = {kind: sum(bar.get(kind, 0) for bar in rest) for kind in _COLOURS}
    return shown


def draw(rows: Iterable[Mapping[str, Any]], file: str) -> None:
    """Draw an inventory.

    Args:
        rows: Its rows.
        file: Where the picture goes; its ending says the format, such as ``.png``.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        InvalidArgumentError: The file cannot be written, or its ending names no format.

    Example:
        >>> draw(hv.blobs.inventory(spark, "photos").toLocalIterator(), "photos.png")
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # a figure without pyplot needs no screen and keeps nothing

    shown = bars(rows)
    figure = Figure(figsize=(9, 1.5 + 0.3 * len(shown)), layout="constrained")
    axes = figure.subplots()
    labels, left = list(shown), [0.0] * len(shown)
    for kind, colour in _COLOURS.items():
        width = [shown[label].get(kind, 0) / _MIB for label in labels]
        axes.barh(labels, width, left=left, color=colour, label=kind)
        left = [begin + size for begin, size in zip(left, width, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("MiB")
    axes.legend(ncols=len(_COLOURS), frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    try:
        figure.savefig(file, dpi=120)
    except (OSError, ValueError) as problem:
        raise InvalidArgumentError(f"the picture '{file}' cannot be written: {problem}") from None
