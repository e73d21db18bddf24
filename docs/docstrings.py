"""Let mkdocstrings show the examples of docstrings as code: Griffe knows their section as ``Examples:`` alone."""

from __future__ import annotations

import re
from typing import Any

import griffe


class ExamplesSection(griffe.Extension):
    """Name each section of examples as Griffe does."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section in one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
