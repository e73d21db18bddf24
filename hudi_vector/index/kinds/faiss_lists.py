"""Search of code lists by faiss, which is faster than by numpy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.kinds.faiss_library import library, set_codebook
from hudi_vector.index.kinds.model import Floats32, Floats64, IndexModel
from hudi_vector.kernels.quantise import LEVELS
from hudi_vector.kernels.topk import Ints
from hudi_vector.storage import parallel

__all__ = ["FaissLists"]

_PART_QUERIES, _PARTS_A_THREAD = 32, 4


class FaissLists:
    """Code lists in a faiss index, which reads the codes where they are and has a number for each.

    The model is of kind ``ivf_pq`` or ``ivf_sq8``. List l holds the entries ``offsets[l]`` to ``offsets[l + 1]`` of
    `codes`, which are contiguous; they may be written as long as a list is not searched.
    """

    def __init__(self, model: IndexModel, offsets: Ints, codes: npt.NDArray[np.uint8]) -> None:
        self._faiss = library(model.kind)
        is_dot = model.by_products
        self._centroids = (self._faiss.IndexFlatIP if is_dot else self._faiss.IndexFlatL2)(model.dimension)
        self._centroids.add(model.centroids)
        metric = self._faiss.METRIC_INNER_PRODUCT if is_dot else self._faiss.METRIC_L2
        self._index = (self._by_parts if model.codes == "parts" else self._by_ranges)(model, metric)
        self._index.is_trained, self._index.ntotal = True, len(codes)
        self._codes = codes  # faiss has their address only
        self._lists = self._lent(offsets, codes)
        self._index.replace_invlists(self._lists, False)

    def _lent(self, offsets: Ints, codes: npt.NDArray[np.uint8]) -> Any:
        """Return faiss' lists of these codes: it keeps the entries' numbers itself, and a view of each list's codes."""
        # A code size of 0 lets faiss store numbers without codes.
        lists = self._faiss.ArrayInvertedLists(len(offsets) - 1, 0)
        numbers, pointer, views = np.arange(len(codes), dtype=np.int64), self._faiss.swig_ptr, lists.codes
        views.clear()
        for number, (start, stop) in enumerate(pairwise(offsets.tolist())):
            view = self._faiss.MaybeOwnedVectorUInt8()
            if stop > start:
                lists.add_entries(number, stop - start, pointer(numbers[start:stop]), pointer(codes[start:stop]))
                view.is_owned = False
                view.c_ptr = view.view_data = pointer(codes[start:stop])
                view.c_size = view.view_size = (stop - start) * codes.shape[1]
            views.push_back(view)
        lists.code_size = self._index.code_size
        return lists

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
        """Return the approximate bytes in memory for so many entries, without their codes."""
        return entries * 8 + model.centroids.nbytes

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
        pointer, threads = self._faiss.swig_ptr, self._faiss.omp_get_max_threads()

        def search(part: slice) -> None:
            own = (array[part] for array in (asked, lists, nothing, rank, entry))
            points, probed, centred, ranks, entries = map(pointer, own)
            self._index.search_preassigned_c(
                len(asked[part]), points, count, probed, centred, ranks, entries, False, params
            )

        if threads == 1 or len(asked) < _PART_QUERIES:
            search(slice(None))
            return rank, entry

        def search_alone(part: slice) -> None:
            self._faiss.omp_set_num_threads(1)  # of this thread alone
            search(part)

        # Two such calls at once take two thirds of the time of one call that shares its queries among faiss' threads.
        size = max(_PART_QUERIES, -(-len(asked) // (_PARTS_A_THREAD * threads)))
        parts = [slice(at, at + size) for at in range(0, len(asked), size)]
        for _ in parallel.threads_named("hudi-vector-faiss", threads).map(search_alone, parts):
            pass
        return rank, entry

    def _selector(self, chosen: npt.NDArray[Any] | None) -> Any:
        if chosen is None:
            return None
        bitmap = np.zeros(self._index.ntotal, np.bool_)
        bitmap[chosen] = True
        return self._faiss.IDSelectorBitmap(np.packbits(bitmap, bitorder="little"))
