"""The tests of PyTorch's datasets ran, with this code, and none failed: tests/torch.json says so."""

from __future__ import annotations

import json
import sys

import pytest
from support import torch_run

from hudi_vector import errors

_WHAT_TO_DO = "run `make torch-test`, which installs PyTorch (3 GB) in .venv-torch, and commit tests/torch.json"


def test_the_record_is_of_this_code() -> None:
    record = json.loads(torch_run.RECORD.read_text("utf-8"))
    changed = sorted(file for file, digest in torch_run.digests().items() if record["files"].get(file) != digest)
    assert not changed, f"{', '.join(changed)} changed since the tests with PyTorch ran: {_WHAT_TO_DO}"
    assert (record["failed"], record["skipped"]) == (0, 0), _WHAT_TO_DO
    assert record["passed"] >= 36


@pytest.mark.parametrize(("library", "module"), [("torch", "torch"), ("ray.data", "ray")])
def test_a_missing_library_is_one_sentence(library: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"hudi_vector.integrations.{module}", raising=False)
    with pytest.raises(errors.MissingDependencyError) as caught:
        __import__(f"hudi_vector.integrations.{module}")
    assert str(caught.value) == (
        f"hudi_vector.integrations.{module} needs '{module}': install it with pip install 'hudi-vector[{module}]'"
    )
