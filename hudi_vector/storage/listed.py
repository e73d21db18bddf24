"""Listings that skip files whose names are not UTF-8, and describe each of them in a sentence, called a doubt."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_vector.arguments import is_unicode
from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import FileInfo, Storage

__all__ = ["list_below", "shown", "with_names"]


def list_below(storage: Storage, folder: str) -> tuple[list[FileInfo], list[str]]:
    """Return the files below a folder whose names are text, and a doubt for each other file.

    If the folder cannot be listed, there are no files and one doubt with the reason.
    """
    try:
        return with_names(storage.list_files(folder, recursive=True))
    except (OSError, HudiVectorError) as problem:
        return [], [shown(f"the files below '{folder}' cannot be listed: {problem}")]


def with_names(files: Sequence[FileInfo]) -> tuple[list[FileInfo], list[str]]:
    r"""Return the files whose names are text, and a doubt for each other file: no reference or record can name it.

    Example:
        >>> with_names([FileInfo("file:///t/caf\udce9", 1, 0)])[1]
        ["the name of 'file:///t/caf\\udce9' is not UTF-8; rename the file or remove it"]
    """
    good = [info for info in files if is_unicode(info.uri)]
    if len(good) == len(files):
        return good, []
    odd = [info.uri for info in files if not is_unicode(info.uri)]
    return good, [f"the name of '{shown(uri)}' is not UTF-8; rename the file or remove it" for uri in sorted(odd)]


def shown(text: str) -> str:
    r"""Return a text with backslash escapes for what UTF-8 cannot encode.

    Example:
        >>> shown("caf\udce9")
        'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode()
