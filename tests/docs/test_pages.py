"""Every code block of README and docs/ runs, in order, on tables that its page makes."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest
from support.pages import PAGES, ROOT, PageRun, blocks, own_database, quick_defaults

WITH_CODE = [page for page in PAGES if any(True for _ in blocks(page))]

EXCUSED = {
    "README.md": 2,
    "docs/explanation/cleaner.md": 1,
    "docs/how-to/arrow-and-frames.md": 1,
    "docs/how-to/clusters-and-s3.md": 1,
    "docs/how-to/schedule-services.md": 2,
    "docs/how-to/train-with-blobs.md": 3,
    "docs/reference/command.md": 1,
    "docs/start/install.md": 1,
}
"""How many blocks of each page are not run; each says why in a comment above it."""


@pytest.fixture(scope="module")
def quick(spark):
    with quick_defaults(spark):
        yield


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_runs(page, spark, quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = PageRun(spark, tmp_path, {"spark": spark})
    with own_database(spark, "page_" + re.sub(r"\W", "_", page.stem.lower())):
        for block in blocks(page):
            if block.excuse is None or ("make torch-test" in block.excuse and find_spec("torch") is not None):
                try:
                    made.run(block)
                except Exception as problem:
                    raise AssertionError(f"{block}: {problem}") from problem
        for query in spark.streams.active:
            query.processAllAvailable()


def test_blocks_that_are_not_run_are_few_and_say_why():
    excused = [block for page in PAGES for block in blocks(page) if block.excuse is not None]
    assert {
        page.relative_to(ROOT).as_posix(): n for page in PAGES if (n := sum(block.page == page for block in excused))
    } == EXCUSED
    for block in excused:
        assert len(block.excuse.split()) >= 4, f"{block} does not say why it is not run"
