"""Lists of codes as faiss looks through them, which is sooner than by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.kinds.faiss_library import library, set_codebook
from hudi_vector.index.kinds.model import Floats32, Floats64, IndexModel
from hudi_vector.kernels.quantise import LEVELS
from hudi_vector.kernels.topk import Ints

__all__ = ["FaissLists"]


class FaissLists:
    """Codes in lists, held by faiss: a copy of them, and a number for each.

    Args:
        model: A model of the kind ``ivf_pq`` or ``ivf_sq8``.
        offsets: List l holds the entries ``offsets[l]`` to ``offsets[l + 1]``.
        codes: The codes of all entries.
    """

    def __init__(self, model: IndexModel, offsets: Ints, codes: npt.NDArray[np.uint8]) -> None:
        self._faiss = library(model.kind)
        is_dot = model.by_products
        self._centroids = (self._faiss.IndexFlatIP if is_dot else self._faiss.IndexFlatL2)(model.dimension)
        self._centroids.add(model.centroids)
        metric = self._faiss.METRIC_INNER_PRODUCT if is_dot else self._faiss.METRIC_L2
        self._index = (self._by_parts if model.kind == "ivf_pq" else self._by_ranges)(model, metric)
        self._index.is_trained, self._index.ntotal = True, len(codes)
        self._lists = self._faiss.ArrayInvertedLists(model.lists, self._index.code_size)
        numbers = np.arange(len(codes), dtype=np.int64)
        pointer = self._faiss.swig_ptr
        for number in np.flatnonzero(np.diff(offsets)).tolist():
            start, stop = int(offsets[number]), int(offsets[number + 1])
            self._lists.add_entries(number, stop - start, pointer(numbers[start:stop]), pointer(codes[start:stop]))
        self._index.replace_invlists(self._lists, False)

    def _by_parts(self, model: IndexModel, metric: Any) -> Any:
        shape = (model.dimension, model.lists, len(model.codebook), model.num_bits)
        index = self._faiss.IndexIVFPQ(self._centroids, *shape, metric)
        set_codebook(index.pq, model.codebook)
        # Tables for all lists take more memory than the codes, and hardly less time.
        index.use_precomputed_table = -1
        self._params = self._faiss.IVFPQSearchParameters
        return index

    def _by_ranges(self, model: IndexModel, metric: Any) -> Any:
        shape = (model.dimension, model.lists, self._faiss.ScalarQuantizer.QT_8bit, metric, False)
        index = self._faiss.IndexIVFScalarQuantizer(self._centroids, *shape)
        # In faiss a code stands for the middle of its level, of 255 in the range.
        low, width = model.low - model.scale / 2, model.scale * np.float32(LEVELS)
        self._faiss.copy_array_to_vector(np.concatenate([low, width]).astype(np.float32), index.sq.trained)
        self._params = self._faiss.SearchParametersIVF
        return index

    @staticmethod
    def nbytes(model: IndexModel, entries: int) -> int:
        """Bytes held in memory, about.

        Args:
            model: The model.
            entries: How many entries there are.
        """
        return entries * (model.code_width + 8) + model.centroids.nbytes

    def best(
        self, points: Floats64, lists: Ints, count: int, chosen: npt.NDArray[Any] | None
    ) -> tuple[Floats32, npt.NDArray[np.int64]]:
        """The best codes of some lists for each query.

        Args:
            points: Queries in the model's space, shape (m, d).
            lists: The lists that each looks at, shape (m, p).
            count: How many codes each gets.
            chosen: The entries that may be found, None for all.

        Returns:
            Ranks, without order between kinds of metrics, and entries, both of shape (m, count); −1 where there are
            no more.
        """
        rank = np.empty((len(points), count), np.float32)
        entry = np.empty((len(points), count), np.int64)
        asked = np.ascontiguousarray(points, np.float32)
        # In one order, so that of codes that are equally near a batch finds those that its single queries find.
        lists = np.sort(lists, axis=1).astype(np.int64)
        # The distances of the centroids are not looked at without tables for all lists.
        nothing = np.zeros(lists.shape, np.float32)
        params = self._params(nprobe=lists.shape[1], sel=self._selector(chosen))
        pointer = self._faiss.swig_ptr
        self._index.search_preassigned_c(
            len(asked), pointer(asked), count, pointer(lists), pointer(nothing), pointer(rank), pointer(entry), False,
            params,
        )  # fmt: skip
        return rank, entry

    def _selector(self, chosen: npt.NDArray[Any] | None) -> Any:
        if chosen is None:
            return None
        bitmap = np.zeros(self._index.ntotal, np.bool_)
        bitmap[chosen] = True
        return self._faiss.IDSelectorBitmap(np.packbits(bitmap, bitorder="little"))
