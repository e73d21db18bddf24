"""Search of code lists by faiss, which is faster than by numpy."""

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
    """Code lists in a faiss index, which holds a copy of the codes and a number for each.

    The model is of kind ``ivf_pq`` or ``ivf_sq8``. List l holds the entries ``offsets[l]`` to ``offsets[l + 1]`` of
    `codes`.
    """

    def __init__(self, model: IndexModel, offsets: Ints, codes: npt.NDArray[np.uint8]) -> None:
        self._faiss = library(model.kind)
        is_dot = model.by_products
        self._centroids = (self._faiss.IndexFlatIP if is_dot else self._faiss.IndexFlatL2)(model.dimension)
        self._centroids.add(model.centroids)
        metric = self._faiss.METRIC_INNER_PRODUCT if is_dot else self._faiss.METRIC_L2
        self._index = (self._by_parts if model.codes == "parts" else self._by_ranges)(model, metric)
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
        # Precomputed tables for all lists take more memory than the codes and save hardly any time.
        index.use_precomputed_table = -1
        self._params = self._faiss.IVFPQSearchParameters
        return index

    def _by_ranges(self, model: IndexModel, metric: Any) -> Any:
        shape = (model.dimension, model.lists, self._faiss.ScalarQuantizer.QT_8bit, metric, False)
        index = self._faiss.IndexIVFScalarQuantizer(self._centroids, *shape)
        # faiss decodes a code to the middle of its level, of which the range has 255.
        low, width = model.low - model.scale / 2, model.scale * np.float32(LEVELS)
        self._faiss.copy_array_to_vector(np.concatenate([low, width]).astype(np.float32), index.sq.trained)
        self._params = self._faiss.SearchParametersIVF
        return index

    @staticmethod
    def nbytes(model: IndexModel, entries: int) -> int:
        """Return the approximate bytes in memory for so many entries."""
        return entries * (model.code_width + 8) + model.centroids.nbytes

    def best(
        self, points: Floats64, lists: Ints, count: int, chosen: npt.NDArray[Any] | None
    ) -> tuple[Floats32, npt.NDArray[np.int64]]:
        """Return the ranks and entries of the best codes in some lists for each query.

        `points` are queries in the model's space, shape (m, d), and `lists` the lists that each probes, shape (m, p).
        `chosen` holds the entries that may be found, or is None for all. Both results have shape (m, count), with entry
        -1 where there are no more. A rank is a squared distance or an inner product, depending on the metric.
        """
        rank = np.empty((len(points), count), np.float32)
        entry = np.empty((len(points), count), np.int64)
        asked = np.ascontiguousarray(points, np.float32)
        # Sorted, so that ties are broken alike for a batch and for its queries one by one.
        lists = np.sort(lists, axis=1).astype(np.int64)
        # Without precomputed tables faiss does not use the centroids' distances.
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
