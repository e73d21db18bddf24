"""The words of a filter text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hudi_vector.errors import InvalidFilterError

__all__ = ["Token", "tokenize"]


@dataclass(frozen=True)
class Token:
    """One word: ``kind`` is ``name``, ``quoted``, ``number``, ``string``, ``sign`` or ``end``."""

    kind: str
    text: str
    position: int

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these keywords.

        Args:
            words: Keywords, in capitals.

        Returns:
            True for any spelling of one of them without backticks.
        """
        return self.kind == "name" and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Whether this is one of these signs.

        Args:
            signs: Such as ``<=``.

        Returns:
            True for one of them.
        """
        return self.kind == "sign" and self.text in signs


_PATTERN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[A-Za-z_0-9]*)
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<string>'(?:[^'\\]|\\.)*')
    |(?P<sign><=>|<=|>=|<>|!=|==|[=<>(),.+-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def tokenize(text: str) -> list[Token]:
    r"""Take a filter text apart.

    Args:
        text: The filter.

    Returns:
        Its words without spaces, then an ``end``; strings and quoted names without their quotes.

    Raises:
        InvalidFilterError: A character has no meaning, or a string has an escape that is not known.

    Example:
        >>> [token.text for token in tokenize("a <= 'it\\'s'")]
        ['a', '<=', "it's", '']
    """
    tokens = []
    position = 0
    while position < len(text):
        found = _PATTERN.match(text, position)
        if found is None:
            raise InvalidFilterError(
                f"the filter {text!r} cannot be read at position {position + 1}, {text[position]!r}; "
                "strings stand in '…', names with special characters in `…`"
            )
        kind, word = str(found.lastgroup), found.group()
        if kind == "string":
            word = re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", lambda escape: _unescaped(escape[1], text), word[1:-1], flags=re.S)
        elif kind == "quoted":
            word = word[1:-1].replace("``", "`")
        if kind != "space":
            tokens.append(Token(kind, word, position))
        position = found.end()
    return [*tokens, Token("end", "", len(text))]


def _unescaped(escape: str, text: str) -> str:
    if len(escape) > 1:
        character = chr(int(escape[1:], 16))
        if not "\ud800" <= character <= "\udfff":
            return character
    elif escape in _ESCAPED or not escape.isalnum():
        return _ESCAPED.get(escape, escape)
    raise InvalidFilterError(f"the filter {text!r} has the escape \\{escape} in a string; write \\\\ for a backslash")
