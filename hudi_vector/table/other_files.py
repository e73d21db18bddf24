"""Files for people and other programs, which are not written among the data files of a table."""

from __future__ import annotations

import os
from pathlib import Path

from hudi_vector.errors import InvalidArgumentError

__all__ = ["require_outside"]


def require_outside(file: str | os.PathLike[str], name: str) -> None:
    """Raise InvalidArgumentError if a local file, called `name` in the sentence, would lie among a table's data files.

    A file that does not bear a name of Hudi's is a doubt there, for which the cleaner keeps every blob. Files below
    ``.hoodie`` are none.
    """
    table = _table_around(Path(os.path.realpath(file)))
    if table is not None:
        raise InvalidArgumentError(
            f"{name} '{os.fspath(file)}' would lie among the data files of the table '{table}', where a file of "
            "another kind keeps every blob; name a file outside of the table"
        )


def _table_around(file: Path) -> Path | None:
    for folder in file.parents:
        if folder.name == ".hoodie":
            return None
        if (folder / ".hoodie" / "hoodie.properties").is_file():
            return folder
    return None
