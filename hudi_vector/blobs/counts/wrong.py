"""Detection of wrong references, each with one of a fixed set of problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.presence import DIRECTORY, GONE, TOO_SHORT, UNREACHABLE, file_sizes, presence
from hudi_vector.blobs.files import BlobFiles
from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.stored_blobs import StoredBlobs
from hudi_vector.errors import InvalidBlobError

__all__ = ["CHANGED", "OUT_OF_REACH", "Problems", "find_problems"]

Problems = npt.NDArray[np.object_]
"""The problem of each of n blobs, None for blobs without a problem."""

CHANGED, OUT_OF_REACH = "changed", "unreachable"
_CONTRADICTS, _RELATIVE, _FOREIGN = "contradicts itself", "relative without base", "foreign"
_WORDS = {GONE: "gone", DIRECTORY: "directory", UNREACHABLE: OUT_OF_REACH, TOO_SHORT: "too short"}


def find_problems(blobs: StoredBlobs, area: BlobArea, files: BlobFiles) -> Problems:
    """Return the problem of each blob without reading its bytes, shape (n,), None for blobs without a problem.

    The problems are ``contradicts itself``, ``relative without base``, ``gone``, ``directory``, ``unreachable``,
    ``too short`` and ``foreign``. Missing bytes are reported rather than a foreign file. A relative path is accepted
    only if it leads into the table's own blob area, as this package writes it. Raises MissingDependencyError if a
    scheme needs a package that is not installed.
    """
    problems: Problems = np.full(len(blobs), None, np.object_)
    rows = np.flatnonzero(blobs.outside)
    problems[rows] = _each(blobs.path.take(pa.array(rows)), lambda paths: [_misplaced(path, area) for path in paths])
    rows = rows[problems[rows] != _RELATIVE]
    sizes = _each(blobs.file.take(pa.array(rows)), lambda uris: file_sizes(files, uris)).astype(np.int64)
    found = presence(blobs.begin[rows], blobs.count[rows], sizes)
    for code, words in _WORDS.items():
        problems[rows[found == code]] = words
    problems[blobs.contradicts] = _CONTRADICTS
    return problems


def _each(texts: pa.StringArray, function: Any) -> Problems:
    """Apply the function to the distinct texts; return its result for each row."""
    encoded = texts.dictionary_encode()
    results: Problems = np.empty(len(encoded.dictionary), np.object_)
    results[:] = function(encoded.dictionary.to_pylist())
    spread: Problems = results[np.asarray(encoded.indices)]
    return spread


def _misplaced(path: str, area: BlobArea) -> str | None:
    uri = area.file(path)
    if area.is_foreign(uri):
        return _FOREIGN
    try:
        file_uri(path, None)
    except InvalidBlobError:  # the path is relative
        return None if area.owns(uri) else _RELATIVE
    return None
