"""Hadoop's settings of storage, as they travel beside a plan; their text form never shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["HADOOP_KEYS", "S3A", "StorageOptions", "bucket_settings"]

HADOOP_KEYS = (
    r"(fs\.(s3a|gs|azure|hdfs)\..*)|(dfs\.(nameservices|ha\.namenodes|namenode\.rpc-address)(\..*)?)"
    r"|(hadoop\.security\.credential\.provider\.path)"
)
"""The keys of Hadoop's configuration that storage is opened with."""

_KEPT = ("fs.", "dfs.", "hadoop.security.credential.provider.path", "hoodie.blob.read.allowed")
S3A = "fs.s3a."
_BUCKET = S3A + "bucket."


@dataclass(frozen=True, repr=False)
class StorageOptions:
    """Hadoop's storage settings, as ``fs.…`` and ``dfs.…`` keys and values; their text form is masked.

    What references may name (``hoodie.blob.read.allowed``) is among them: whatever opens storage knows it.
    """

    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, str]) -> StorageOptions:
        """Keep the settings that storage is opened with.

        Args:
            values: Hadoop keys (``fs.s3a.endpoint``) with or without the prefix ``spark.hadoop.``.

        Returns:
            The settings, ordered, so that equal settings are equal objects.
        """
        short = {key.removeprefix("spark.hadoop."): value for key, value in values.items()}
        return cls(tuple(sorted((key, value) for key, value in short.items() if key.startswith(_KEPT))))

    def at(self, uri: str) -> StorageOptions:
        """The settings as they hold for one place: those of its bucket go before those of all buckets."""
        scheme, _, rest = uri.partition("://")
        if not scheme.lower().startswith("s3") or not any(key.startswith(_BUCKET) for key, _ in self.values):
            return self
        return StorageOptions(bucket_settings(self.values, rest.partition("/")[0]))

    def get(self, key: str) -> str | None:
        """The value of a key, or None."""
        return dict(self.values).get(key)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(key + '=***' for key, _ in self.values)})"


@lru_cache(maxsize=256)
def bucket_settings(values: tuple[tuple[str, str], ...], bucket: str) -> tuple[tuple[str, str], ...]:
    """Return settings as they hold for one bucket, without those of any single one.

    Args:
        values: Hadoop's keys and values.
        bucket: The bucket.

    Example:
        >>> mine = (("fs.s3a.bucket.lake.endpoint", "http://a"), ("fs.s3a.endpoint", "http://b"))
        >>> bucket_settings(mine, "lake"), bucket_settings(mine, "other")
        ((('fs.s3a.endpoint', 'http://a'),), (('fs.s3a.endpoint', 'http://b'),))
    """
    own = f"{_BUCKET}{bucket}."
    settings = {key: value for key, value in values if not key.startswith(_BUCKET)}
    settings |= {S3A + key.removeprefix(own): value for key, value in values if key.startswith(own)}
    return tuple(sorted(settings.items()))
