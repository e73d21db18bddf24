"""Records: dataclasses in side files, written whole, and checked field by field when they are read.

A kind of side files is declared once, as a `Record`, next to the dataclass that its files hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hudi_vector.storage import Storage, join
from hudi_vector.storage.side_files import generation_of, newest, publish, unseal
from hudi_vector.storage.stored_values import shaped

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")

__all__ = ["Entry", "Record", "json_of"]


@dataclass(frozen=True)
class Record(Generic[T]):
    """A kind of side files, each of which holds one dataclass.

    Attributes:
        kind: The kind in the first line of the files.
        version: The version there.
        shape: The dataclass.
        elsewhere: Its fields that the body does not hold: the reader knows them, as it does the table. ``generation``
            and ``name`` among them are those of the file.

    Example:
        >>> import tempfile
        >>> from hudi_vector.storage import StorageOptions, open_storage
        >>> from hudi_vector.blobs.uploads.side_tables import SideTable
        >>> folder = "file://" + tempfile.mkdtemp()
        >>> storage, record = open_storage(folder, StorageOptions()), Record("example", 1, SideTable)
        >>> _ = record.publish(storage, folder, SideTable("a", 1, "b"), 7)
        >>> found = record.newest(storage, folder)
        >>> found.generation, found.value()
        (7, SideTable(name='a', bytes=1, sha256='b'))
    """

    kind: str
    version: int
    shape: type[T]
    elsewhere: tuple[str, ...] = ()

    def publish(self, storage: Storage, folder: str, value: T, generation: int, /, **more: Any) -> str:
        """Write a record durably under a new name, and return the name; `more` are further JSON entries of the body.

        Raises DataFileError if no generation can follow the last one.
        """
        held = (each.name for each in fields(value) if each.name not in self.elsewhere)
        body = {name: json_of(getattr(value, name)) for name in held}
        return publish(storage, folder, self.kind, self.version, generation, body | more)

    def newest(self, storage: Storage, folder: str, names: Sequence[str] | None = None) -> Entry[T] | None:
        """Return the newest whole file of a folder, or None if no file is whole.

        `names` is what `side_files.names_of` returned, if the folder has been listed. Raises UnsupportedTableError if a
        newer file has another version.
        """
        found = newest(storage, folder, self.kind, self.version, names)
        return None if found is None else Entry(self, join(folder, found[0]), found[1])

    def read(self, storage: Storage, uri: str) -> Entry[T] | None:
        """Return one file, or None if it is not whole or of another kind.

        Raises UnsupportedTableError if it has another version.
        """
        body = unseal(self.kind, self.version, storage.read(uri), uri)
        return None if body is None else Entry(self, uri, body)


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A whole file of a record: its URI and its body, of which nothing has been checked."""

    record: Record[T]
    uri: str
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """Return the file's name."""
        return self.uri.rpartition("/")[2]

    @property
    def generation(self) -> int:
        """Return the generation in the file's name."""
        return generation_of(self.name)

    def value(self, **known: Any) -> T:
        """Return the checked value; `known` are the fields that the body does not hold, except those of the file.

        Raises DataFileError if a field is missing, unknown or not what it must be.
        """
        in_name = {name: getattr(self, name) for name in ("generation", "name") if name in self.record.elsewhere}
        return shaped(self.record.shape, self.body, self.uri, **in_name, **known)


def json_of(value: Any) -> Any:
    """Return a value as JSON has it: dataclasses as objects, tuples as lists, or what a class makes in `to_stored`.

    Example:
        >>> from hudi_vector.blobs.uploads.side_tables import SideTable
        >>> json_of((SideTable("a", 1, "b"), None))
        [{'name': 'a', 'bytes': 1, 'sha256': 'b'}, None]
    """
    if hasattr(value, "to_stored"):
        return value.to_stored()
    if is_dataclass(value):
        return {each.name: json_of(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: json_of(each) for key, each in value.items()}
    return [json_of(each) for each in value] if isinstance(value, tuple | list) else value
