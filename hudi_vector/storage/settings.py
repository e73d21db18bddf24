"""Hadoop's storage settings in a form that travels with a plan; their text form masks all values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from hudi_vector.options import CACHE_DIR, CACHE_DIR_MAX_BYTES
from hudi_vector.storage.disk_cache import DiskCache, disk_cache_at

__all__ = ["HADOOP_KEYS", "PARALLELISM", "S3A", "StorageOptions", "bucket_settings"]

HADOOP_KEYS = (
    r"(fs\.(s3a|gs|azure|hdfs)\..*)|(dfs\.(nameservices|ha\.namenodes|namenode\.rpc-address)(\..*)?)"
    r"|(hadoop\.security\.credential\.provider\.path)"
)
"""Regular expression of the Hadoop configuration keys that storage is opened with."""

PARALLELISM = "hoodie.vector.io.parallelism"
"""The setting of how many requests a process sends at once."""

_OURS = ("hoodie.blob.read.allowed", PARALLELISM, CACHE_DIR.key, CACHE_DIR_MAX_BYTES.key)
_KEPT = ("fs.", "dfs.", "hadoop.security.credential.provider.path", *_OURS)
S3A = "fs.s3a."
_BUCKET = S3A + "bucket."


@dataclass(frozen=True, repr=False)
class StorageOptions:
    """Hadoop's storage settings, as ``fs.…`` and ``dfs.…`` keys and values; their text form is masked.

    Some settings of this package are included, so that whatever opens storage has them, also in Spark's tasks: which
    places references may name (``hoodie.blob.read.allowed``), how many requests a process sends at once
    (``hoodie.vector.io.parallelism``), and where a host keeps what was read (``hoodie.vector.cache.dir`` and its size).
    """

    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, str]) -> StorageOptions:
        """Keep the settings that storage is opened with; keys may have the prefix ``spark.hadoop.``.

        The result is sorted, so that equal settings are equal objects.
        """
        short = {key.removeprefix("spark.hadoop."): value for key, value in values.items()}
        return cls(tuple(sorted((key, value) for key, value in short.items() if key.startswith(_KEPT))))

    def at(self, uri: str) -> StorageOptions:
        """Return the settings for one URI: settings of its bucket override the general ones."""
        scheme, _, rest = uri.partition("://")
        if not scheme.lower().startswith("s3") or not any(key.startswith(_BUCKET) for key, _ in self.values):
            return self
        return StorageOptions(bucket_settings(self.values, rest.partition("/")[0]))

    @cached_property
    def parallelism(self) -> int | None:
        """Return how many requests the process that opens storage sends at once; None if nothing is said of it."""
        said = self.get(PARALLELISM)
        return None if said is None else int(said)

    @property
    def cache(self) -> DiskCache | None:
        """Return the cache on disk, or None without one; raise InvalidOptionError if its folder cannot be used."""
        return None if self._cache_place is None else disk_cache_at(*self._cache_place)

    @cached_property
    def _cache_place(self) -> tuple[str, int] | None:
        """Return the folder of the cache and its bytes, which travel with the settings, as the cache cannot."""
        said = dict(self.values)
        folder = CACHE_DIR.read(said)
        return (folder, CACHE_DIR_MAX_BYTES.read(said)) if folder else None

    def get(self, key: str) -> str | None:
        """Return the value of a key, or None."""
        return dict(self.values).get(key)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(key + '=***' for key, _ in self.values)})"


@lru_cache(maxsize=256)
def bucket_settings(values: tuple[tuple[str, str], ...], bucket: str) -> tuple[tuple[str, str], ...]:
    """Return the settings for one bucket, with all ``fs.s3a.bucket.…`` keys resolved or removed.

    Example:
        >>> mine = (("fs.s3a.bucket.lake.endpoint", "http://a"), ("fs.s3a.endpoint", "http://b"))
        >>> bucket_settings(mine, "lake"), bucket_settings(mine, "other")
        ((('fs.s3a.endpoint', 'http://a'),), (('fs.s3a.endpoint', 'http://b'),))
    """
    own = f"{_BUCKET}{bucket}."
    settings = {key: value for key, value in values if not key.startswith(_BUCKET)}
    settings |= {S3A + key.removeprefix(own): value for key, value in values if key.startswith(own)}
    return tuple(sorted(settings.items()))
