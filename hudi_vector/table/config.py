"""A table's settings, read from ``.hoodie/hoodie.properties``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hudi_vector.errors import DataFileError, TableNotFoundError
from hudi_vector.table.layout import TimelineLayout, timeline_path

__all__ = [
    "PROPERTIES",
    "PROPERTIES_COPY",
    "TableConfig",
    "parse_properties",
    "properties_of",
    "read_properties",
    "stored_properties",
]

PROPERTIES = ".hoodie/hoodie.properties"
"""Where a table's settings lie, below its base path."""

PROPERTIES_COPY = f"{PROPERTIES}.backup"
"""Their copy, while Hudi changes them: it removes the file before it writes the new one."""

_VERSION = "hoodie.table.version"

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*[=: \t\f]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

# Key generators whose partition paths are the plain values of the partition columns.
_PLAIN_GENERATORS = frozenset(
    {
        "SIMPLE",
        "SIMPLE_AVRO",
        "COMPLEX",
        "COMPLEX_AVRO",
        "NON_PARTITION",
        "NON_PARTITION_AVRO",
        "SimpleKeyGenerator",
        "SimpleAvroKeyGenerator",
        "ComplexKeyGenerator",
        "ComplexAvroKeyGenerator",
        "NonpartitionedKeyGenerator",
        "NonpartitionedAvroKeyGenerator",
    }
)
_MERGE_PROPERTY = "hoodie.record.merge.property."
_PLAIN_PAYLOADS = frozenset({"OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload", "HoodieAvroPayload"})
# Hudi's strategy ids of its two built-in merge modes.
_PLAIN_STRATEGIES = frozenset({"eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"})


@dataclass(frozen=True)
class TableConfig:
    """The settings that a reader needs, from the properties that Hudi writes when a table is created."""

    name: str
    version: int
    merge_on_read: bool
    base_file_format: str
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    merge_mode: str
    hive_style_partitioning: bool
    url_encode_partitioning: bool
    populates_meta_fields: bool
    plain_key_generator: bool
    plain_merge: bool
    drops_partition_columns: bool
    bootstrapped: bool
    timeline_path: str
    timeline_zone: str
    create_schema: str | None

    @property
    def layout(self) -> TimelineLayout:
        """Return where the table's timeline lies and how its files are named."""
        return TimelineLayout(self.version, self.timeline_path)

    @property
    def merges_by_event_time(self) -> bool:
        """Return True if the row with the greatest value of the ordering fields wins, not the one that came last."""
        return self.merge_mode == "EVENT_TIME_ORDERING" and bool(self.ordering_fields)

    @classmethod
    def parse(cls, text: str) -> TableConfig:
        """Read the text of ``hoodie.properties``, with Hudi's defaults for absent keys."""
        return cls._of(parse_properties(text))

    @classmethod
    def of_file(cls, content: bytes, uri: str) -> TableConfig:
        """Read the content of ``hoodie.properties``; raise DataFileError, naming `uri`, if it is damaged."""
        properties = properties_of(content, uri)
        try:
            return cls._of(properties)
        except ValueError as problem:
            raise _damaged(uri, problem) from problem

    @classmethod
    def _of(cls, properties: Mapping[str, str]) -> TableConfig:
        def flag(key: str, default: str) -> bool:
            return properties.get(key, default).strip().lower() == "true"

        def names(*keys: str) -> tuple[str, ...]:
            text = next((properties[key] for key in keys if properties.get(key)), "")
            return tuple(name.split(":")[0].strip() for name in text.split(",") if name.strip())

        version = int(properties.get(_VERSION, "0"))
        return cls(
            name=properties.get("hoodie.table.name", ""),
            version=version,
            merge_on_read=properties.get("hoodie.table.type", "COPY_ON_WRITE") == "MERGE_ON_READ",
            base_file_format=properties.get("hoodie.table.base.file.format", "PARQUET").lower(),
            record_key_fields=names("hoodie.table.recordkey.fields"),
            partition_fields=names("hoodie.table.partition.fields"),
            ordering_fields=names("hoodie.table.ordering.fields", "hoodie.table.precombine.field"),
            merge_mode=properties.get("hoodie.record.merge.mode", ""),
            hive_style_partitioning=flag("hoodie.datasource.write.hive_style_partitioning", "false"),
            url_encode_partitioning=flag("hoodie.datasource.write.partitionpath.urlencode", "false"),
            populates_meta_fields=flag("hoodie.populate.meta.fields", "true"),
            plain_key_generator=_has_plain_key_generator(properties),
            plain_merge=_has_plain_merge(properties),
            drops_partition_columns=flag("hoodie.datasource.write.drop.partition.columns", "false"),
            bootstrapped=bool(properties.get("hoodie.bootstrap.base.path")),
            timeline_path=timeline_path(version, properties),
            timeline_zone=properties.get("hoodie.table.timeline.timezone", "LOCAL").upper(),
            create_schema=properties.get("hoodie.table.create.schema"),
        )


def _has_plain_key_generator(properties: Mapping[str, str]) -> bool:
    kind = properties.get("hoodie.table.keygenerator.type")
    if kind is None:
        kind = properties.get("hoodie.table.keygenerator.class", "SIMPLE").rpartition(".")[2]
    if kind in ("CUSTOM", "CUSTOM_AVRO") or "Custom" in kind:
        return False
    return kind in _PLAIN_GENERATORS


def _has_plain_merge(properties: Mapping[str, str]) -> bool:
    mode = properties.get("hoodie.record.merge.mode")
    strategy = properties.get("hoodie.record.merge.strategy.id")
    payload = properties.get("hoodie.compaction.payload.class", "").rpartition(".")[2]
    # Hudi migrates old payload classes to a merge mode plus merge properties, which may mark rows as deleted.
    if any(key.startswith(_MERGE_PROPERTY) or key == "hoodie.table.partial.update.mode" for key in properties):
        return False
    if mode == "CUSTOM" or (payload and payload not in _PLAIN_PAYLOADS):
        return False
    return mode is not None or strategy is None or strategy in _PLAIN_STRATEGIES


def read_properties(read: Callable[[str], bytes | None], table: str) -> bytes | None:
    """Return the content of ``hoodie.properties``, or of its copy where that file is missing or not whole.

    `read` returns the content of a file, and None or FileNotFoundError if there is none. The result is None if there is
    no table at the base path `table`. Raises TableNotFoundError if a file is there in place of a folder.
    """
    content = None
    # Hudi may have put the file back after it was looked for.
    for name in (PROPERTIES, PROPERTIES_COPY, PROPERTIES):
        try:
            found = read(f"{table.rstrip('/')}/{name}")
        except FileNotFoundError:
            found = None
        except NotADirectoryError:
            raise TableNotFoundError(
                f"there is no Hudi table at '{table}', which is a file or lies below one; give Parquet files as "
                "files=[…], or with --file"
            ) from None
        if found is not None and _VERSION.encode() in found:
            return found
        content = found or content
    return content


def stored_properties(read: Callable[[str], bytes | None], table: str) -> dict[str, str]:
    """Return the keys and values that `read_properties` finds; none if there is no table.

    Raises DataFileError if the file is not text.
    """
    return properties_of(read_properties(read, table) or b"", f"{table}/{PROPERTIES}")


def properties_of(content: bytes, uri: str) -> dict[str, str]:
    """Return the keys and values of ``hoodie.properties``; raise DataFileError, naming `uri`, if it is not text.

    Example:
        >>> properties_of(b"hoodie.table.name=t", "/t/.hoodie/hoodie.properties")
        {'hoodie.table.name': 't'}
    """
    try:
        return parse_properties(content.decode())
    except ValueError as problem:
        raise _damaged(uri, problem) from problem


def _damaged(uri: str, problem: ValueError) -> DataFileError:
    return DataFileError(f"'{uri}' is damaged: {problem}; restore the file that Hudi wrote")


def parse_properties(text: str) -> dict[str, str]:
    r"""Read a Java properties file into unescaped keys and values.

    ``#`` and ``!`` begin comments; ``\`` escapes and continues lines.

    Example:
        >>> parse_properties("# made by hand\na=1\nb\\:c : x\\=y")
        {'a': '1', 'b:c': 'x=y'}
    """
    values: dict[str, str] = {}
    pending: str | None = None
    for raw in [*_LINE_END.split(text), ""]:
        line = raw.lstrip(_BLANKS)
        if pending is None and line[:1] in ("", "#", "!"):
            continue
        line, pending = (pending or "") + line, None
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            pending = line[:-1]
            continue
        found = _SEPARATOR.search(line)
        if found is None:
            values[_unescape(line)] = ""
            continue
        key, rest = line[: found.end() - 1], line[found.end() - 1 :].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        values[_unescape(key)] = _unescape(rest)
    return values


def _unescape(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] == "u" and len(code) == 5:
            return chr(int(code[1:], 16))
        return _CONTROL.get(code, code)

    # Java escapes a character beyond 16 bits as two surrogates, which become one character here.
    return _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
