"""RFC-100's settings of how blobs are stored: read, checked, and overridden per column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hudi_vector.errors import InvalidOptionError, did_you_mean
from hudi_vector.options import (
    BLOB_CHECKSUM,
    BLOB_FORMAT,
    BLOB_INLINE_THRESHOLD,
    BLOB_MAX_ELEMENT_SIZE,
    BLOB_MAX_FILE_SIZE,
    BLOB_PATHS,
    BLOB_PIN,
    BLOB_WRITE_LEASE,
    Option,
)
from hudi_vector.storage.stored_values import value_of

__all__ = ["MAX_INLINE_SIZE", "BlobSettings"]

MAX_INLINE_SIZE = 16 << 20
"""Blobs above this many bytes are never stored inline."""

_PREFIXES = ("hoodie.storage.blob.", "hoodie.blob.write.")

_OPTIONS: dict[str, Option[int] | Option[str]] = {
    "inline_threshold": BLOB_INLINE_THRESHOLD,
    "max_element_size": BLOB_MAX_ELEMENT_SIZE,
    "max_file_size": BLOB_MAX_FILE_SIZE,
    "format": BLOB_FORMAT,
    "checksum": BLOB_CHECKSUM,
    "paths": BLOB_PATHS,
    "pin": BLOB_PIN,
    "lease_ms": BLOB_WRITE_LEASE,
}


@dataclass(frozen=True)
class BlobSettings:
    """The settings of how the blobs of a column are stored; sizes in bytes, `lease_ms` in milliseconds."""

    inline_threshold: int = BLOB_INLINE_THRESHOLD.default
    max_element_size: int = BLOB_MAX_ELEMENT_SIZE.default
    max_file_size: int = BLOB_MAX_FILE_SIZE.default
    format: str = BLOB_FORMAT.default
    checksum: str = BLOB_CHECKSUM.default
    paths: str = BLOB_PATHS.default
    lease_ms: int = BLOB_WRITE_LEASE.default
    pin: str = BLOB_PIN.default

    def __post_init__(self) -> None:
        if self.inline_threshold > MAX_INLINE_SIZE:
            raise InvalidOptionError(
                f"{BLOB_INLINE_THRESHOLD.key} = {self.inline_threshold} is above {MAX_INLINE_SIZE} (16 MiB), "
                "and larger blobs are always stored out of line; give 16 MiB or less"
            )
        if self.max_element_size > self.max_file_size:
            raise InvalidOptionError(
                f"{BLOB_MAX_ELEMENT_SIZE.key} = {self.max_element_size} is larger than "
                f"{BLOB_MAX_FILE_SIZE.key} = {self.max_file_size}: a blob that goes into a container must fit in one"
            )

    @classmethod
    def of(cls, options: Mapping[str, str]) -> BlobSettings:
        """Return the settings among the options of a write, with defaults for those not set.

        Keys that do not begin with ``hoodie.storage.blob.`` or ``hoodie.blob.write.`` are ignored. Raises
        InvalidOptionError if a key below these prefixes is unknown, a value is not allowed, or two values contradict
        each other.

        Example:
            >>> BlobSettings.of({"hoodie.storage.blob.inline.threshold": "64KB"}).inline_threshold
            65536
        """
        ours = {key: value for key, value in options.items() if key.startswith(_PREFIXES)}
        fields = {_field_of(key, shortened=False): value for key, value in ours.items()}
        return cls(**_parsed(fields))  # type: ignore[arg-type]

    def for_column(self, column: str, options: Mapping[str, str]) -> BlobSettings:
        """Return these settings with the overrides of one column.

        Args:
            column: The column's name, used in messages.
            options: Overrides by full key or by the end of a key (``inline.threshold``, ``format``).

        Raises:
            InvalidOptionError: As for `of`; also if a setting is given twice, or if the lease is set, which belongs to
                the whole write.

        Example:
            >>> BlobSettings().for_column("img", {"inline.threshold": "0", "format": "lance"}).format
            'lance'
        """
        try:
            fields = {_field_of(key, shortened=True): value for key, value in options.items()}
            if "lease_ms" in fields:
                raise InvalidOptionError(f"{BLOB_WRITE_LEASE.key} belongs to the whole write, not to one column")
            if len(fields) < len(options):
                raise InvalidOptionError(f"one setting is given twice among {', '.join(options)}")
            return BlobSettings(**{**vars(self), **_parsed(fields)})
        except InvalidOptionError as wrong:
            raise InvalidOptionError(f"column '{column}': {wrong}") from None

    def to_options(self) -> dict[str, str]:
        """Return every setting as full key and text value; `of` reads them back.

        Example:
            >>> BlobSettings.of(BlobSettings(format="lance").to_options()).format
            'lance'
        """
        return {option.key: str(getattr(self, field)) for field, option in _OPTIONS.items()}

    to_stored = to_options  # what side files hold

    @classmethod
    def of_stored(cls, value: Any, uri: str, name: str) -> BlobSettings:
        """Return the settings in an entry of a side file; raise DataFileError if they are not keys and texts."""
        return cls.of(value_of(Mapping[str, str], value, uri, name))


def _parsed(fields: Mapping[str, str]) -> dict[str, int | str]:
    if str(fields.get("format", "")).strip().lower() == "hfile":
        raise InvalidOptionError(
            f"{BLOB_FORMAT.key} = 'hfile' is not supported: only HBase's Java classes write HFile, sorted by key, "
            f"which blobs that arrive in the order of the rows are not; give one of {', '.join(BLOB_FORMAT.allowed)}"
        )
    return {field: _OPTIONS[field].parse(str(text)) for field, text in fields.items()}


def _field_of(key: str, shortened: bool) -> str:
    """Return the field that a key sets, or the end of a key if `shortened`.

    Raises InvalidOptionError if it is unknown.
    """
    wanted = key.strip().lower()
    for field, option in _OPTIONS.items():
        known = option.key.lower()
        if wanted == known or (shortened and known.endswith(f".{wanted}")):
            return field
    keys = [option.key for option in _OPTIONS.values()]
    hint = did_you_mean(key, keys, most=1, alike=0.8)
    raise InvalidOptionError(
        f"'{key}' is no setting of blobs; the settings are {', '.join(keys)}" + (f"; {hint}" if hint else "")
    )
