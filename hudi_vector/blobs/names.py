"""Names and paths of containers, and the ids of writes.

``{table}/.hoodie/blobs/{partition}/{column}/{write id}/{write id}-{task:05d}-{attempt}-{number}.{extension}``

`column` is the dotted path of the column. A name holds the write, the task attempt and the number of the file within
the attempt, so two attempts never share a name, and a cleaner finds the write's manifest from the name alone. While
Lance fills a container, the same folder holds a file named ``.tmp`` and six letters; a killed process leaves it behind.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timezone

from hudi_vector.container_formats import FORMATS
from hudi_vector.storage import join, normalise, scheme_of
from hudi_vector.storage.stored_values import is_path_below

__all__ = [
    "BLOB_AREA",
    "STAGING",
    "WRITE_ID",
    "ContainerName",
    "is_container_name",
    "is_write_id",
    "new_write_id",
    "reference_base",
    "write_of",
    "written_ms",
]

BLOB_AREA = ".hoodie/blobs"
STAGING = ".hoodie/blob_service/v1/staging"
"""The folder, relative to the table, where rows and references wait for a commit; one subfolder per write or plan."""

WRITE_ID = re.compile(r"\d{17}_[0-9a-f]{12}", re.ASCII)
"""The form of the ids of writes, plans, sweeps, marks and erasures; these ids are names of folders."""
_EXTENSIONS = "|".join(each.extension for each in FORMATS.values())
_FILE = re.compile(rf"({WRITE_ID.pattern})-(\d{{5,}})-(\d+)-(\d+)\.({_EXTENSIONS})", re.ASCII)
_UNFINISHED = re.compile(r"\.tmp[A-Za-z0-9]{6}", re.ASCII)


def reference_base(table: str) -> str:
    """Return a table's base path as references spell it.

    The caller's scheme stays (Hadoop may know ``s3a`` and not ``s3``); local paths become ``file:`` URIs.

    Example:
        >>> reference_base("/t/"), reference_base("s3a://b/t/")
        ('file:///t', 's3a://b/t')
    """
    return normalise(table) if scheme_of(table) == "file" else table.rstrip("/")


def new_write_id(now_ms: int) -> str:
    """Return a unique id for a write: `now_ms` (milliseconds since 1970, UTC) as 17 digits, and 48 random bits.

    Ids sort by time.

    Example:
        >>> new_write_id(0)[:18]
        '19700101000000000_'
    """
    at = datetime.fromtimestamp(now_ms // 1000, timezone.utc)
    return f"{at:%Y%m%d%H%M%S}{now_ms % 1000:03d}_{secrets.token_hex(6)}"


def written_ms(write_id: str) -> int | None:
    """Return the time in an id of `new_write_id`, in milliseconds since 1970; None if its digits are not a time.

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
    """Return True if a value is a string of the form that `new_write_id` makes."""
    return isinstance(text, str) and WRITE_ID.fullmatch(text) is not None


def is_container_name(name: str) -> bool:
    """Return True if a file's name, without folders, has the form that writes give; no two containers have one name.

    Example:
        >>> is_container_name("20260101000000000_0123456789ab-00003-17-0.blob"), is_container_name("cat.png")
        (True, False)
    """
    return _FILE.fullmatch(name) is not None


@dataclass(frozen=True)
class ContainerName:
    """The parts of a container's path; `partition` is the table partition's path, empty without partitions."""

    partition: str
    column: str
    write_id: str
    task: int
    attempt: int
    number: int
    extension: str

    def uri(self, table: str) -> str:
        """Return the path of the container, with the table's base path spelled as given.

        Example:
            >>> ContainerName("d=1", "img", "20260101000000000_0123456789ab", 3, 17, 0, "blob").uri("s3a://b/t")[:35]
            's3a://b/t/.hoodie/blobs/d=1/img/202'
        """
        file = f"{self.write_id}-{self.task:05d}-{self.attempt}-{self.number}.{self.extension}"
        return join(table.rstrip("/"), BLOB_AREA, self.partition, self.column, self.write_id, file)

    @classmethod
    def parse(cls, table: str, uri: str) -> ContainerName | None:
        """Return the parts of a file's path, or None if it is not a container's name below the table's blob area.

        `table` must be spelled as in `uri`.

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
    """Return the id of the write that made a file of the blob area, or None for a file that this package did not name.

    Containers and the unfinished ``.tmp`` files of Lance have a write. `table` must be spelled as in `uri`.

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
