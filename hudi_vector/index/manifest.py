"""Manifests: one per generation of an index, with its model, its segments and their base files."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.drift import UNKNOWN, Quality
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.model import ELEMENTS, MODEL_ID, MOST_DIMENSIONS, IndexModel
from hudi_vector.index.kinds.segment import FileFingerprint
from hudi_vector.kernels.metrics import INDEXED
from hudi_vector.storage import FileInfo, Storage, join
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import generation_of, is_side_file, names_of
from hudi_vector.storage.stored_values import at_least, has_form, one_of
from hudi_vector.table.recent import Recent

__all__ = [
    "MANIFEST_VERSION",
    "PACK",
    "SEGMENT",
    "IndexManifest",
    "ManifestEntry",
    "PackPlace",
    "Setting",
    "manifest_named",
    "manifests_folder",
    "newest_manifest",
    "newest_since",
    "publish_manifest",
]

MANIFEST_VERSION = 2
"""The version of manifests whose segments lie in packs; others have version 1."""
SEGMENT = re.compile(r"[^/\0]+\.arrow")
"""The form of segment file names."""
PACK = re.compile(r"[0-9a-f]{16}-[0-9A-Za-z]+\.pack", re.ASCII)
"""The form of pack names."""
_Count = Annotated[int, at_least(0)]
_Positive = Annotated[int, at_least(1)]
_LOG = logging.getLogger("hudi_vector.index")


@dataclass(frozen=True)
class PackPlace:
    """The place of a segment in a pack: the pack's name and bytes, the bytes of its head, and the segment's number."""

    name: Annotated[str, has_form("pack", PACK)]
    bytes: _Positive
    head: _Positive
    number: _Count

    @property
    def model_id(self) -> str:
        """Return the model of the pack's segments, which its name ends with."""
        return self.name.rpartition("-")[2].removesuffix(".pack")


@dataclass(frozen=True)
class ManifestEntry:
    """A segment: the covered base file, that file's number of rows, the segment's name and its bytes.

    `clipped` counts the rows with a value outside the model's range; `quality` says how well the model fits. `pack` is
    where the segment lies, or None if it has a separate file.
    """

    file: FileFingerprint
    rows: _Count
    segment: Annotated[str, has_form("segment", SEGMENT)]
    bytes: _Count
    clipped: _Count = 0
    quality: Quality = UNKNOWN
    pack: PackPlace | None = None


@dataclass(frozen=True)
class Setting:
    """A calibrated search setting for k rows: the number of lists and candidates, and the result on held-out queries.

    `recall` is the share of the true nearest rows among the candidates, and `scored` the number of codes that a query
    scored. `margin` is how much lower the recall of other queries may be, given the few queries measured. Manifests
    without k date from when only k = 10 was measured, and those without a margin from when none was computed.
    """

    nprobes: _Positive
    candidates: _Positive
    recall: float
    scored: int
    k: _Positive = 10
    margin: float = 0.0

    @property
    def least(self) -> float:
        """Return the recall less its margin."""
        return self.recall - self.margin


@dataclass(frozen=True)
class IndexManifest:
    """An index at one generation.

    `created_ms` is milliseconds since 1970, and `name` is the name of the manifest's file; both and `generation` are
    set on publication. `trained` is the quality of the segments that were made together with the model.
    """

    column: str
    kind: Annotated[str, one_of(*KINDS)]
    metric: Annotated[str, one_of(*sorted(INDEXED))]
    dimension: _Positive
    element: Annotated[str, one_of(*ELEMENTS)]
    model_id: Annotated[str, has_form("model", MODEL_ID)]
    parameters: dict[str, Any]
    entries: tuple[ManifestEntry, ...]
    calibration: tuple[Setting, ...] = ()
    trained: Quality = UNKNOWN
    created_ms: int = 0
    generation: int = field(default=0, compare=False)
    name: str = field(default="", compare=False)

    @classmethod
    def of(
        cls, column: str, model: IndexModel, parameters: dict[str, Any], entries: tuple[ManifestEntry, ...]
    ) -> IndexManifest:
        """Return the manifest of an index with this model; `parameters` are the requested settings, in JSON values."""
        return cls(
            column, model.kind, model.metric, model.dimension, model.element, model.model_id, parameters, entries
        )


def _require_sense(manifest: IndexManifest, uri: str) -> None:
    """Raise DataFileError for a path, a dimension or a recall target that no index has."""
    target = manifest.parameters.get("recall_target")
    fits = (
        manifest.dimension <= MOST_DIMENSIONS
        and not any("\0" in each.file.path for each in manifest.entries)
        and (target is None or (isinstance(target, float | int) and 0 <= target <= 1))
    )
    if not fits:
        raise DataFileError(f"'{uri}' is damaged, or somebody changed it: no index is of such files or such numbers")


_MANIFEST = Record("index-manifest", 1, IndexManifest, elsewhere=("generation", "name"))

# Every search needs the newest manifest. Names are never used again, so a manifest need not be read twice.
_READ: Recent[tuple[str, str], IndexManifest] = Recent(32)


def publish_manifest(storage: Storage, folder: str, manifest: IndexManifest, key: str = "") -> IndexManifest:
    """Publish a manifest durably as the newest of its index, in one atomic step, and return it as published.

    Its model and segments must be written already. `key` identifies its list of files if several share the folder.
    """
    names = names_of(storage, manifests_folder(folder, key))
    generation = generation_of(names[0]) + 1 if names else 1
    published = replace(manifest, created_ms=time.time_ns() // 1_000_000, generation=generation)
    has_packs = any(entry.pack is not None for entry in manifest.entries)
    version = {"manifest_version": MANIFEST_VERSION if has_packs else 1}
    name = _MANIFEST.publish(storage, manifests_folder(folder, key), published, generation, **version)
    return replace(published, name=name)


def newest_manifest(
    storage: Storage, folder: str, key: str = "", below: Sequence[FileInfo] | None = None
) -> IndexManifest | None:
    """Return the newest valid manifest of an index, or None; damaged and invalid manifests are skipped.

    `key` identifies the list of files if several share the folder. `below` are all files of the folder, if they have
    been listed. Raises UnsupportedTableError if a newer manifest has a version that this package does not know.
    """
    manifests = manifests_folder(folder, key)
    names = names_of(storage, manifests, below)
    known = _READ.get((manifests, names[0])) if names else None
    if known is not None:
        return known
    for name in names:
        try:
            found = _read(storage, manifests, name)
        except DataFileError as problem:
            _LOG.warning("%s", problem)
            continue
        if found is not None:
            return _READ.first((manifests, name), found)
    return None


def manifest_named(storage: Storage, folder: str, name: str, key: str = "") -> IndexManifest | None:
    """Return the manifest with this file name, or None if it is missing or not whole.

    `key` identifies the list of files if several share the folder. Raises DataFileError if the manifest is invalid or
    the name is not a manifest's, and UnsupportedTableError if this package does not know its version.
    """
    if not is_side_file(name):
        raise DataFileError(f"{name!r} is not the name of a manifest of the index in '{folder}'")
    try:
        return _read(storage, manifests_folder(folder, key), name)
    except FileNotFoundError:
        return None


def newest_since(storage: Storage, folder: str, since_ms: int, key: str = "") -> list[IndexManifest]:
    """Return the newest manifest and all that were the newest at some time since `since_ms`, newest first.

    Searches begun since then may still use them. `since_ms` is in milliseconds since 1970; `key` identifies the list of
    files if several share the folder. Damaged and invalid manifests are left out.
    """
    files = [file for file in storage.list_files(manifests_folder(folder, key)) if is_side_file(file.name)]
    read, followed_ms = [], math.inf
    for file in sorted(files, key=lambda file: file.name, reverse=True):
        if followed_ms > since_ms:
            try:
                read.append(manifest_named(storage, folder, file.name, key))
            except DataFileError as problem:
                _LOG.warning("%s", problem)
        followed_ms = file.mtime_ns // 1_000_000
    return [manifest for manifest in read if manifest is not None]


def _read(storage: Storage, manifests: str, name: str) -> IndexManifest | None:
    found = _MANIFEST.read(storage, join(manifests, name))
    if found is None:
        return None
    version = found.body.pop("manifest_version", None)
    if version not in (1, MANIFEST_VERSION):
        raise UnsupportedTableError(
            f"'{found.uri}' has manifest_version {version} and this hudi-vector knows versions 1 and "
            f"{MANIFEST_VERSION}; use the hudi-vector that wrote it, or a newer one"
        )
    manifest = found.value()
    _require_sense(manifest, found.uri)
    return manifest


def manifests_folder(folder: str, key: str = "") -> str:
    """Return the folder of an index's manifests; `key` identifies the list of files if several share the folder."""
    return join(folder, "manifests", key)
