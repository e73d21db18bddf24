"""The choice of the index and probe settings of a search, or the reason why no index is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from hudi_vector import options
from hudi_vector.errors import HudiVectorError, InvalidArgumentError, number_of
from hudi_vector.index.calibration.calibrate import setting_at, settings_at
from hudi_vector.index.catalog import Index, indexes_at
from hudi_vector.index.kinds.faiss_library import is_installed
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.load import read_ahead
from hudi_vector.index.locations import in_directory, in_table
from hudi_vector.query.plan import IndexUse
from hudi_vector.query.tuning import Tuning
from hudi_vector.read.parquet.vector_pages import RangeReads
from hudi_vector.storage import open_storage, scheme_of
from hudi_vector.table.model import Source

__all__ = ["Choice", "IndexNeed", "choose_index", "external_directory", "indexes_and_heads", "known_indexes"]

_FILTERED_RECALL = 0.99
_MAKE_ONE = "make such an index with hudi_vector.index.create, or"


@dataclass(frozen=True)
class IndexNeed:
    """The requirements of a search on an index."""

    dimension: int
    element: str
    metric: str
    k: int
    queries: int
    has_filter: bool = False


@dataclass(frozen=True)
class Choice:
    """The chosen index with its probe settings, or the reason why none is used."""

    index: Index | None = None
    use: IndexUse | None = None
    reason: str = ""


def external_directory(conf: Mapping[str, str]) -> str | None:
    """Return the external index directory, or None if it is unset or disabled."""
    enabled = options.INDEX_EXTERNAL_ENABLED.read(conf) == "true"
    return (options.INDEX_EXTERNAL_DIR.read(conf) or None) if enabled else None


def known_indexes(source: Source, column: str, conf: Mapping[str, str], tuning: Tuning) -> list[Index]:
    """Return the indexes of a column that a search may choose from, of the table and of the external directory.

    An exact search gets none, and storage is not accessed.
    """
    if tuning.settled(conf).mode == "exact":
        return []
    homes, directory = [in_table(source.uri, column)], external_directory(conf)
    if directory is not None:
        homes.append(in_directory(directory, source.uri, column))
    storage = open_storage(source.uri, source.options)
    return [index for found in storage.each(lambda home: indexes_at(home, source.options), homes) for index in found]


def indexes_and_heads(source: Source, column: str, conf: Mapping[str, str], tuning: Tuning) -> list[Index]:
    """Return what `known_indexes` does; on an object store, what searches by an only index begin with is read too."""
    found = known_indexes(source, column, conf, tuning)
    if len(found) == 1 and scheme_of(found[0].folder) != "file":
        known = found[0].manifest
        with suppress(HudiVectorError, OSError):  # a search that needs it says why it cannot be read
            read_ahead(found[0].folder, known.model_id, known.entries, source.options)
    return found


def choose_index(indexes: Sequence[Index], need: IndexNeed, tuning: Tuning, conf: Mapping[str, str]) -> Choice:
    """Choose among the indexes of a column; `tuning` must be settled.

    Raises InvalidArgumentError if a requested kind of index is missing, or if `nprobes` or `refine_factor` is given
    although the answer must be exact.
    """
    if tuning.mode == "exact":
        _require_no_shortcut(tuning)
        return Choice(reason="an exact search was asked for")
    asked = tuning.algorithm if tuning.algorithm in KINDS else None
    if not indexes:
        if tuning.target(None) is None:
            _require_no_shortcut(tuning)
        return _none(asked, need, "the column has no index")
    fitting = [m for m in indexes if (m.manifest.dimension, m.manifest.element) == (need.dimension, need.element)]
    if not fitting:
        return _none(asked, need, "its index was made for vectors of another type")
    same = [m for m in fitting if m.manifest.metric == need.metric]
    if not same:
        others = ", ".join(sorted({m.manifest.metric for m in fitting}))
        return _none(asked, need, f"its index is for {others}")
    wanted = [m for m in same if asked in (None, m.manifest.kind)]
    if not wanted:
        return _none(asked, need, f"its index is {', '.join(sorted(m.manifest.kind for m in same))}")
    usable = [m for m in wanted if _hindrance(m, tuning) is None]
    if not usable:
        if tuning.target(None) is None and asked is None:
            _require_no_shortcut(tuning)
        return _none(asked, need, _hindrance(wanted[0], tuning) or "", "or")
    best = min(usable, key=lambda index: list(KINDS).index(index.manifest.kind))
    target = tuning.target(best.recall_target)
    if target is None:
        _require_no_shortcut(tuning)
        return _certain(best, asked, need, conf)
    return _approximate(best, target, tuning, asked, need, conf)


def _hindrance(index: Index, tuning: Tuning) -> str | None:
    """Return why an index cannot answer the search, or None if it can."""
    kind = KINDS[index.manifest.kind]
    if kind.searched_by_faiss and not is_installed():
        return f"its index is {kind.name}, which needs 'faiss-cpu': install it with pip install 'hudi-vector[faiss]'"
    if not kind.proves and tuning.target(index.recall_target) is None:
        return (
            f"its index is {kind.name}, which gives no exact answers: add a recall_target below 1, or mode => "
            "'approximate'"
        )
    return None


def _approximate(
    best: Index, target: float, tuning: Tuning, asked: str | None, need: IndexNeed, conf: Mapping[str, str]
) -> Choice:
    """Use the cheapest calibrated setting that reaches the recall target; if none did, search exhaustively.

    `nprobes` and `refine_factor` of the call take precedence. An index without calibration is used with its default
    settings.
    """
    calibration = best.manifest.calibration
    # Calibration runs without filters; with a filter the nearest rows may be in lists that rank lower.
    aim = max(target, _FILTERED_RECALL) if need.has_filter else target
    setting = setting_at(calibration, need.k, aim)
    if calibration and setting is None and tuning.nprobes is None:
        return _certain(best, asked, need, conf)
    use = _use(best, conf, certain=False)
    if setting is not None:
        use = replace(use, nprobes=setting.nprobes, refine_factor=max(1.0, setting.candidates / need.k))
    if tuning.nprobes is not None:
        use = replace(use, nprobes=tuning.nprobes)
    if tuning.refine_factor is not None:
        use = replace(use, refine_factor=tuning.refine_factor)
    return Choice(best, use)


def _certain(best: Index, asked: str | None, need: IndexNeed, conf: Mapping[str, str]) -> Choice:
    if not KINDS[best.manifest.kind].proves:
        return _none(asked, need, _why_not_reached(best, need.k), "or")
    most = options.INDEX_BATCH_MAX_QUERIES.read(conf)
    if asked is None and need.queries > most:
        return Choice(
            reason=f"{number_of(need.queries, 'query')}, more than {options.INDEX_BATCH_MAX_QUERIES.key} = {most}"
        )
    return Choice(best, _use(best, conf, certain=True))


def _why_not_reached(index: Index, k: int) -> str:
    """Return why an index that proves nothing is not known to reach the requested recall."""
    kind, calibration = index.manifest.kind, index.manifest.calibration
    found = max((setting.recall for setting in settings_at(calibration, k)), default=None)
    if found is None:
        most = max(setting.k for setting in calibration)
        return f"its {kind} index was measured for k up to {most}: add nprobes, or ask for fewer rows"
    most_found = f"none of the settings measured for its {kind} index found more than {found:.3f}"
    return f"{most_found}: add nprobes, or lower the recall target"


def _require_no_shortcut(tuning: Tuning) -> None:
    given = next((name for name in ("nprobes", "refine_factor") if getattr(tuning, name) is not None), None)
    if given is not None:
        raise InvalidArgumentError(
            f"{given} gives up exactness, and nothing asked for that; add mode => 'approximate', or a recall_target "
            "below 1"
        )


def _use(index: Index, conf: Mapping[str, str], certain: bool) -> IndexUse:
    known = index.manifest
    use = IndexUse(index.folder, index.name, known.model_id, known.kind, known.metric, certain, RangeReads.of(conf))
    return replace(use, generation=known.generation, manifest=known.name)


def _none(asked: str | None, need: IndexNeed, reason: str, remedy: str = _MAKE_ONE) -> Choice:
    if asked is None:
        return Choice(reason=reason)
    raise InvalidArgumentError(
        f"algorithm '{asked}' was asked for with metric {need.metric}, and {reason}; {remedy} leave the algorithm out"
    )
