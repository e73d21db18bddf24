"""Programs of benchmarks/ and docs/, which lie in no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[2]


def module(path: str, name: str) -> ModuleType:
    """A file of this repository, loaded under a name."""
    spec = importlib.util.spec_from_file_location(name, _ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded  # dataclasses look for the module of their class
    spec.loader.exec_module(loaded)
    return loaded
