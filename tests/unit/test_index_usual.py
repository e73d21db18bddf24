"""The kind of an index for which none was asked: both sides of each edge."""

from __future__ import annotations

import pytest

from hudi_vector.index.kinds.kinds import usual_kind

MEBI = 1 << 20


@pytest.mark.parametrize(
    ("dimension", "rows", "is_remote", "recall_target", "kind"),
    [
        # Exactness comes first.
        (768, 10_000_000, True, None, "ivf_sq8"),
        (768, 10_000_000, False, 1.0, "ivf_sq8"),
        (768, 10_000_000, False, 0.99, "ivf_rabitq"),
        # Short vectors need many candidates.
        (255, 100_000_000, True, 0.95, "ivf_sq8"),
        (256, 100_000_000, True, 0.95, "ivf_rabitq"),
        # On an object store, and on a local disk.
        (512, 16 * MEBI // 512, True, 0.95, "ivf_sq8"),
        (512, 16 * MEBI // 512 + 1, True, 0.95, "ivf_rabitq"),
        (512, 1024 * MEBI // 512, False, 0.95, "ivf_sq8"),
        (512, 1024 * MEBI // 512 + 1, False, 0.95, "ivf_rabitq"),
    ],
)
def test_the_kind_where_none_was_asked(
    dimension: int, rows: int, is_remote: bool, recall_target: float | None, kind: str
) -> None:
    assert usual_kind(dimension, rows, is_remote, recall_target) == kind
