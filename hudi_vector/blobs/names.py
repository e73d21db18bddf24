"""What containers and writes are called, and where they lie.

``{table}/.hoodie/blobs/{partition}/{column}/{write id}/{write id}-{task:05d}-{attempt}-{number}.{blob|lance|parquet}``

`column` is the dotted path of the column. A name says which write, task attempt and position in it made a file, so no
two attempts ever share one, and a cleaner finds the write's manifest from the name alone. Beside a Lance container
lies ``.tmp`` and six letters while Lance fills it; a process that is killed leaves that file.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timezone

from hudi_vector.storage import join, normalise, scheme_of
from hudi_vector.storage.stored_values import is_path_below

__all__ = [
    "BLOB_AREA",
    "EXTENSIONS",
    "STAGING",
    "WRITE_ID",
    "ContainerName",
    "is_write_id",
    "new_write_id",
    "reference_base",
    "write_of",
    "written_ms",
]

BLOB_AREA = ".hoodie/blobs"
STAGING = ".hoodie/blob_service/v1/staging"
"""Where rows and references wait for a commit, in a folder for each write or plan, from the table's folder."""
EXTENSIONS = {"raw": "blob", "lance": "lance", "parquet": "parquet"}

WRITE_ID = re.compile(r"\d{17}_[0-9a-f]{12}", re.ASCII)
"""What the ids of writes, plans, sweeps, marks and erasures look like, which are names of folders."""
_FILE = re.compile(rf"({WRITE_ID.pattern})-(\d{{5,}})-(\d+)-(\d+)\.({'|'.join(EXTENSIONS.values())})", re.ASCII)
_UNFINISHED = re.compile(r"\.tmp[A-Za-z0-9]{6}", re.ASCII)


def reference_base(table: str) -> str:
    """A table's base path as references spell it: Hadoop may know s3a and not s3, so the caller's scheme stays.

    Args:
        table: The base path; local ones need a scheme to be URIs.

    Example:
        >>> reference_base("/t/"), reference_base("s3a://b/t/")
        ('file:///t', 's3a://b/t')
    """
    return normalise(table) if scheme_of(table) == "file" else table.rstrip("/")


def new_write_id(now_ms: int) -> str:
    """An id for one write: ids sort by time, and no two are equal.

    Args:
        now_ms: UTC, in milliseconds since 1970.

    Returns:
        The time to the millisecond and 48 random bits.

    Example:
        >>> new_write_id(0)[:18]
        '19700101000000000_'
    """
    at = datetime.fromtimestamp(now_ms // 1000, timezone.utc)
    return f"{at:%Y%m%d%H%M%S}{now_ms % 1000:03d}_{secrets.token_hex(6)}"


def written_ms(write_id: str) -> int | None:
    """When an id was made, milliseconds since 1970; None where its digits are no time.

    Args:
        write_id: What `new_write_id` made.

    Example:
        >>> written_ms(new_write_id(1234))
        1234
    """
    try:
        second = datetime.strptime(write_id[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(second.timestamp()) * 1000 + int(write_id[14:17])


def is_write_id(text: object) -> bool:
    """Whether a text has the form of an id that `new_write_id` makes."""
    return isinstance(text, str) and WRITE_ID.fullmatch(text) is not None


@dataclass(frozen=True)
class ContainerName:
    """The parts of a container's path; `partition` is the table partition's path, empty without one."""

    partition: str
    column: str
    write_id: str
    task: int
    attempt: int
    number: int
    extension: str

    def uri(self, table: str) -> str:
        """The container below a table.

        Args:
            table: The table's base path, in any spelling.

        Returns:
            The path, in the same spelling.

        Example:
            >>> ContainerName("d=1", "img", "20260101000000000_0123456789ab", 3, 17, 0, "blob").uri("s3a://b/t")[:35]
            's3a://b/t/.hoodie/blobs/d=1/img/202'
        """
        file = f"{self.write_id}-{self.task:05d}-{self.attempt}-{self.number}.{self.extension}"
        return join(table.rstrip("/"), BLOB_AREA, self.partition, self.column, self.write_id, file)

    @classmethod
    def parse(cls, table: str, uri: str) -> ContainerName | None:
        """Read a path back.

        Args:
            table: The table's base path, spelled as in `uri`.
            uri: A file.

        Returns:
            The parts, or None where the file is not below the table's blob area or does not bear such a name.

        Example:
            >>> ContainerName.parse("/t", "/t/.hoodie/blobs/img/cat.png") is None
            True
        """
        area = join(table.rstrip("/"), BLOB_AREA) + "/"
        folders = uri.removeprefix(area).split("/") if uri.startswith(area) else []
        found = _FILE.fullmatch(folders[-1]) if len(folders) >= 3 else None
        if found is None or folders[-2] != found[1] or not is_path_below("/".join(folders)):
            return None
        return cls(
            partition="/".join(folders[:-3]),
            column=folders[-3],
            write_id=found[1],
            task=int(found[2]),
            attempt=int(found[3]),
            number=int(found[4]),
            extension=found[5],
        )


def write_of(table: str, uri: str) -> str | None:
    """The write that made a file in the blob area.

    Args:
        table: The table's base path, spelled as in `uri`.
        uri: A file.

    Returns:
        The write's id; None where the file is no container, and none that Lance had not finished.

    Example:
        >>> folder = "/t/.hoodie/blobs/img/20260101000000000_0123456789ab"
        >>> write_of("/t", f"{folder}/.tmpUasfaz"), write_of("/t", f"{folder}/cat.png")
        ('20260101000000000_0123456789ab', None)
    """
    name = ContainerName.parse(table, uri)
    if name is not None:
        return name.write_id
    area = join(table.rstrip("/"), BLOB_AREA) + "/"
    folders = uri.removeprefix(area).split("/") if uri.startswith(area) else []
    is_ours = len(folders) >= 3 and is_write_id(folders[-2]) and _UNFINISHED.fullmatch(folders[-1]) is not None
    return folders[-2] if is_ours else None
