"""Manifests: one per generation of an index, with its model, its segments and their base files."""

from __future__ import annotations

import logging
import math
import re
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.drift import UNKNOWN, Quality
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.model import ELEMENTS, MODEL_ID, MOST_DIMENSIONS, IndexModel
from hudi_vector.index.kinds.segment import FileFingerprint
from hudi_vector.kernels.metrics import INDEXED
from hudi_vector.storage import Storage, join
from hudi_vector.storage.side_files import generation_of, is_side_file, names_of, publish, unseal
from hudi_vector.storage.stored_values import named, shaped
from hudi_vector.table.recent import Recent

__all__ = [
    "MANIFEST_VERSION",
    "SEGMENT",
    "IndexManifest",
    "ManifestEntry",
    "Setting",
    "manifest_named",
    "manifests_folder",
    "newest_manifest",
    "newest_since",
    "publish_manifest",
]

MANIFEST_VERSION = 1
SEGMENT = re.compile(r"[^/\0]+\.arrow")
"""The form of segment file names."""
_KIND = "index-manifest"
_LOG = logging.getLogger("hudi_vector.index")


@dataclass(frozen=True)
class ManifestEntry:
    """A segment: the covered base file, that file's number of rows, the segment's name and its bytes.

    `clipped` counts the rows with a value outside the model's range; `quality` says how well the model fits.
    """

    file: FileFingerprint
    rows: int
    segment: str
    bytes: int
    clipped: int = 0
    quality: Quality = UNKNOWN


@dataclass(frozen=True)
class Setting:
    """A calibrated search setting for k rows: the number of lists and candidates, and the result on held-out queries.

    `recall` is the share of the true nearest rows among the candidates, and `scored` the number of codes that a query
    scored. `margin` is how much lower the recall of other queries may be, given the few queries measured. Manifests
    without k date from when only k = 10 was measured, and those without a margin from when none was computed.
    """

    nprobes: int
    candidates: int
    recall: float
    scored: int
    k: int = 10
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
    kind: str
    metric: str
    dimension: int
    element: str
    model_id: str
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


# Every search needs the newest manifest. Names are never used again, so a manifest need not be read twice.
_READ: Recent[tuple[str, str], IndexManifest] = Recent(32)


def publish_manifest(storage: Storage, folder: str, manifest: IndexManifest, key: str = "") -> IndexManifest:
    """Publish a manifest durably as the newest of its index, in one atomic step, and return it as published.

    Its model and segments must be written already. `key` identifies its list of files if several share the folder.
    """
    names = names_of(storage, manifests_folder(folder, key))
    generation = generation_of(names[0]) + 1 if names else 1
    published = replace(manifest, created_ms=time.time_ns() // 1_000_000, generation=generation)
    body = {"manifest_version": MANIFEST_VERSION, **asdict(published)}
    del body["generation"], body["name"]
    name = publish(storage, manifests_folder(folder, key), _KIND, MANIFEST_VERSION, generation, body)
    return replace(published, name=name)


def newest_manifest(storage: Storage, folder: str, key: str = "") -> IndexManifest | None:
    """Return the newest valid manifest of an index, or None; damaged and invalid manifests are skipped.

    `key` identifies the list of files if several share the folder. Raises UnsupportedTableError if a newer manifest has
    a version that this package does not know.
    """
    manifests = manifests_folder(folder, key)
    names = names_of(storage, manifests)
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
    uri = join(manifests, name)
    body = unseal(_KIND, MANIFEST_VERSION, storage.read(uri), uri)
    return None if body is None else _manifest(manifests, name, body)


def _manifest(manifests: str, name: str, body: dict[str, Any]) -> IndexManifest:
    version = body.pop("manifest_version", None)
    if version != MANIFEST_VERSION:
        raise UnsupportedTableError(
            f"'{join(manifests, name)}' has manifest_version {version} and this hudi-vector knows version "
            f"{MANIFEST_VERSION}; use the hudi-vector that wrote it, or a newer one"
        )
    uri = join(manifests, name)
    manifest = shaped(IndexManifest, body, uri, generation=generation_of(name), name=name)
    _require_sense(manifest, uri)
    return manifest


def _require_sense(manifest: IndexManifest, uri: str) -> None:
    """Raise DataFileError for names of files outside the index, and for numbers that no index has."""
    named(uri, "model", manifest.model_id, MODEL_ID)
    for entry in manifest.entries:
        named(uri, "segment", entry.segment, SEGMENT)
    target = manifest.parameters.get("recall_target")
    fits = (
        manifest.kind in KINDS
        and manifest.metric in INDEXED
        and manifest.element in ELEMENTS
        and 1 <= manifest.dimension <= MOST_DIMENSIONS
        and all(min(each.rows, each.bytes, each.clipped) >= 0 for each in manifest.entries)
        and not any("\0" in each.file.path for each in manifest.entries)
        and all(min(each.nprobes, each.candidates, each.k) >= 1 for each in manifest.calibration)
        and (target is None or (isinstance(target, float | int) and 0 <= target <= 1))
    )
    if not fits:
        raise DataFileError(f"'{uri}' is damaged, or somebody changed it: it has a kind or numbers that no index has")


def manifests_folder(folder: str, key: str = "") -> str:
    """Return the folder of an index's manifests; `key` identifies the list of files if several share the folder."""
    return join(folder, "manifests", key)
