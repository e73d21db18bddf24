"""The choice of a Lance dataset's own vector index for a search, and of its probe settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.kernels.metrics import METRICS
from hudi_vector.query.index_choice import IndexNeed
from hudi_vector.query.plan import IndexUse, SliceAccess
from hudi_vector.query.tuning import Tuning
from hudi_vector.read.parquet.vector_pages import RangeReads
from hudi_vector.table.model import FragmentInfo, LanceIndex

__all__ = ["LANCE_INDEX", "LanceIndexUse", "choose_lance_index", "covered_by"]

LANCE_INDEX = "lance_index"
"""The access of a fragment that is read through an index of its dataset."""

_OURS = {"IVF_FLAT": "ivf_flat", "IVF_SQ": "ivf_sq8", "IVF_PQ": "ivf_pq"}
# Lance stores no calibration with an index, so this table gives, for each recall up to which a step is used, the lists
# to probe and the candidates for each requested row.
_STEPS = ((0.9, 16, 10), (0.95, 32, 20), (0.99, 64, 40), (1.0, 128, 100))
_MOST_K = 100_000


@dataclass(frozen=True)
class LanceIndexUse(IndexUse):
    """The index for a search of a Lance dataset, with its probe settings."""

    fragments: frozenset[int] = frozenset()
    segments: tuple[str, ...] = ()

    @property
    def effort(self) -> str:
        """Return what `nprobes` counts, as a format: lists in every kind of index that Lance makes."""
        return "{} lists"


def choose_lance_index(
    indexes: Sequence[LanceIndex], column: str, need: IndexNeed, tuning: Tuning, folder: str
) -> tuple[LanceIndexUse | None, str]:
    """Choose among the indexes of a Lance dataset, given for all columns; return None and the reason if none fits.

    `tuning` must be settled; `folder` is the dataset. Raises InvalidArgumentError if a requested kind of index is
    missing, or if arguments ask for an index although the answer must be exact.
    """
    asked = tuning.algorithm if tuning.algorithm in KINDS else None
    target = tuning.target(None)
    if target is None or tuning.mode == "exact":
        given = next((n for n in ("algorithm", "nprobes", "refine_factor") if _is_given(tuning, n)), None)
        if given is not None:
            raise InvalidArgumentError(
                f"{given} asks for the index of a Lance dataset, which may miss rows, and nothing asked for that; add "
                "mode => 'approximate', or a recall_target below 1"
            )
        return None, "an index of Lance may miss rows, and nothing asked for that"
    own = [index for index in indexes if index.column == column and index.metric == METRICS[need.metric].lance]
    fitting = [index for index in own if asked in (None, _kind(index))]
    reason = "more rows are wanted than an index gives" if need.k > _MOST_K else ""
    if not fitting:
        others = sorted({f"{index.kind} for {index.metric}" for index in indexes if index.column == column})
        reason = f"the dataset has {', '.join(others)}" if others else "the dataset has no index of the column"
    if reason:
        if asked is not None:
            raise InvalidArgumentError(
                f"algorithm '{asked}' was asked for with metric {need.metric}, and {reason}; make such an index with "
                "Lance, or leave the algorithm out"
            )
        return None, reason
    best = max(fitting, key=lambda index: (len(index.fragments), index.name))
    _, lists, widening = next(step for step in _STEPS if target <= step[0])
    use = LanceIndexUse(
        folder=folder,
        name=best.name,
        model_id="",
        kind=f"lance {best.kind.lower()}",
        metric=need.metric,
        certain=False,
        reads=RangeReads(),
        nprobes=tuning.nprobes or lists,
        refine_factor=tuning.refine_factor or widening,
        fragments=best.fragments,
        segments=best.segments,
    )
    return use, ""


def _is_given(tuning: Tuning, name: str) -> bool:
    value = getattr(tuning, name)
    return value in KINDS if name == "algorithm" else value is not None


def _kind(index: LanceIndex) -> str:
    return "hnsw" if "HNSW" in index.kind else _OURS.get(index.kind, index.kind)


def covered_by(access: SliceAccess, use: LanceIndexUse | None) -> SliceAccess:
    """Return the access of a fragment: through the index if it covers the fragment, otherwise with the reason.

    Slices that are no fragments, and all slices without an index, are returned unchanged.
    """
    base = access.file_slice.base_file
    if use is None or not isinstance(base, FragmentInfo):
        return access
    if base.fragment in use.fragments:
        return replace(access, access=LANCE_INDEX)
    return replace(access, reason="not in the index yet")
