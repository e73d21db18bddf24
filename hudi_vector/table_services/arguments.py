"""The arguments that services share, in one form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hudi_vector.errors import InvalidTypeError
from hudi_vector.options import require_known
from hudi_vector.storage import path_text

__all__ = ["hudi_settings", "texts"]


def texts(argument: str, given: str | Iterable[str]) -> list[str]:
    """One text or several, as a list: a text is a sequence of letters too.

    Args:
        argument: Its name, for the message.
        given: What the caller gave.

    Raises:
        InvalidTypeError: It is no text, and no list of texts.

    Example:
        >>> texts("columns", "img"), texts("columns", ("img", "scan"))
        (['img'], ['img', 'scan'])
    """
    given = path_text(given)
    found = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    found = [path_text(each) for each in found]
    if isinstance(given, (bytes, Mapping)) or not all(isinstance(each, str) for each in found):
        raise InvalidTypeError(f"{argument} is a text or a list of texts, not {given!r}")
    return found


def hudi_settings(options: Mapping[str, object] | None) -> dict[str, str]:
    """Hudi's settings as texts.

    Args:
        options: What the caller gave.

    Raises:
        InvalidTypeError: It is no mapping.
        InvalidOptionError: A key begins as this package's do and is none of them.

    Example:
        >>> hudi_settings({"hoodie.clean.automatic": False})
        {'hoodie.clean.automatic': 'False'}
    """
    if options is not None and not isinstance(options, Mapping):
        raise InvalidTypeError(
            f"options is a mapping of Hudi's settings, such as {{'hoodie.…': 'true'}}, not {options!r}"
        )
    require_known(map(str, options or {}))
    return {str(key): str(value) for key, value in (options or {}).items()}
