"""The tokenizer of filter texts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hudi_vector.arguments import is_unicode
from hudi_vector.errors import InvalidFilterError

__all__ = ["Token", "tokenize"]


@dataclass(frozen=True)
class Token:
    """One token of a filter text.

    Attributes:
        kind: ``name``, ``quoted``, ``number``, ``string``, ``sign`` or ``end``.
        text: The token, without the quotes of strings and quoted names and with escapes resolved.
        position: Where the token begins in the filter text, from 0.
    """

    kind: str
    text: str
    position: int

    def is_word(self, *words: str) -> bool:
        """Return True if the token is one of the keywords, given in capitals, in any case and without backticks."""
        return self.kind == "name" and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Return True if the token is one of the signs, for example ``<=``."""
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
# As in Spark: four digits of Unicode after u, three of octal from 000 to 177, or one character.
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|[01][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def tokenize(text: str) -> list[Token]:
    r"""Split a filter text into tokens, without white space and followed by an ``end`` token.

    Raises InvalidFilterError if a character cannot begin a token or a string has an unknown escape.

    Example:
        >>> [token.text for token in tokenize("a <= 'it\\'s'")]
        ['a', '<=', "it's", '']
    """
    if not is_unicode(text):
        raise InvalidFilterError(f"the filter {text!r} holds half of a surrogate pair, which is no character")
    tokens = []
    position = 0
    while position < len(text):
        found = _PATTERN.match(text, position)
        if found is None:
            raise InvalidFilterError(
                f"the filter {text!r} cannot be read at position {position + 1}, {text[position]!r}; "
                "strings are written in '…', names with special characters in `…`"
            )
        kind, word = str(found.lastgroup), found.group()
        if kind == "string":
            word = re.sub(_ESCAPE, lambda escape: _unescaped(escape[1], text), word[1:-1])
        elif kind == "quoted":
            word = word[1:-1].replace("``", "`")
        if kind != "space":
            tokens.append(Token(kind, word, position))
        position = found.end()
    return [*tokens, Token("end", "", len(text))]


def _unescaped(escape: str, text: str) -> str:
    if len(escape) > 1:
        character = chr(int(escape[1:], 16) if escape[0] == "u" else int(escape, 8))
        if not "\ud800" <= character <= "\udfff":
            return character
    elif escape in _ESCAPED or not escape.isalnum():
        return _ESCAPED.get(escape, escape)
    raise InvalidFilterError(f"the filter {text!r} has the escape \\{escape} in a string; write \\\\ for a backslash")
