"""The formats of blob containers: name, file extension, description, and the class that writes and checks the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FORMATS", "ContainerFormat"]


@dataclass(frozen=True)
class ContainerFormat:
    """A format of containers; in each a blob is one range of bytes, so that all are read alike.

    Attributes:
        name: The name in settings, and of the module in `hudi_vector.blobs.containers`.
        extension: The end of file names, without the dot.
        text: What a container of this format is, for the description of the setting.
        writer: The class in that module that writes a file and checks it when it is closed.
    """

    name: str
    extension: str
    text: str
    writer: str


# Settings, file names and writers are made from these rows: a new format needs its row and its module.
FORMATS: Mapping[str, ContainerFormat] = {
    each.name: each
    for each in (
        ContainerFormat("raw", "blob", "the blobs one after the other", "RawContainer"),
        ContainerFormat("lance", "lance", "a Lance file with one column", "LanceContainer"),
        ContainerFormat("parquet", "parquet", "a Parquet file with one column", "ParquetContainer"),
    )
}
