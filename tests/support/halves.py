"""The two halves of the tests, for who works on one: what has to do with vectors alone, and with blobs alone.

A file that is named in neither list is shared ground, and runs with both. ``python tests/support/halves.py blobs`` prints
the files of a half, those with a SparkSession first.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path

__all__ = ["BLOBS", "FOLDERS", "VECTORS", "all_files", "files_of", "half_of"]

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = ("integration", "conformance", "docs", "properties", "programs", "unit")
"""In the order in which they run."""

VECTORS = (
    "conformance/test_notebooks.py",
    "conformance/test_vector_*.py",
    "integration/test_batch.py",
    "integration/test_bounds.py",
    "integration/test_exactness.py",
    "integration/test_grouped.py",
    "integration/test_hamming.py",
    "integration/test_haystack.py",
    "integration/test_hybrid.py",
    "integration/test_index*.py",
    "integration/test_join*.py",
    "integration/test_langchain.py",
    "integration/test_layouts_many_slices.py",
    "integration/test_llama_index.py",
    "integration/test_predicate*.py",
    "integration/test_receipts.py",
    "integration/test_rfc_examples.py",
    "integration/test_search_first.py",
    "integration/test_sharing.py",
    "integration/test_sql_forms.py",
    "integration/test_streaming*.py",
    "integration/test_temp_dataset.py",
    "integration/test_watch.py",
    "programs/test_cluster.py",
    "properties/test_index_candidates.py",
    "properties/test_join.py",
    "properties/test_kernels.py",
    "properties/test_kmeans.py",
    "properties/test_quantise.py",
    "properties/test_receipts.py",
    "properties/test_stream_history.py",
    "unit/test_coarse_order.py",
    "unit/test_conditions.py",
    "unit/test_conform.py",
    "unit/test_deleted_rows.py",
    "unit/test_deadline.py",
    "unit/test_distributed.py",
    "unit/test_filtered.py",
    "unit/test_gathered.py",
    "unit/test_grouped.py",
    "unit/test_hamming.py",
    "unit/test_haystack_filter.py",
    "unit/test_hybrid.py",
    "unit/test_index_*.py",
    "unit/test_join.py",
    "unit/test_lance_*.py",
    "unit/test_leases.py",
    "unit/test_merge.py",
    "unit/test_page_table.py",
    "unit/test_planner.py",
    "unit/test_predicate*.py",
    "unit/test_receipts.py",
    "unit/test_report.py",
    "unit/test_row_order.py",
    "unit/test_standalone.py",
    "unit/test_stream_*.py",
    "unit/test_temp_*.py",
    "unit/test_vector_*.py",
    "unit/test_vectors.py",
    "unit/test_watch.py",
)
"""Searches, indexes, joins and streams."""

BLOBS = (
    "conformance/test_read_blob.py",
    "integration/test_blob_*.py",
    "integration/test_clean_*.py",
    "integration/test_cluster_blobs.py",
    "integration/test_compact_blobs.py",
    "integration/test_marks.py",
    "integration/test_sweep_object_store.py",
    "integration/test_training.py",
    "programs/test_blob_memory.py",
    "properties/test_blob_*.py",
    "properties/test_compaction_plan.py",
    "properties/test_kept_checksums.py",
    "properties/test_mark_states.py",
    "properties/test_sample_order.py",
    "properties/test_sweep.py",
    "unit/test_blob_*.py",
    "unit/test_byte_column.py",
    "unit/test_clean*.py",
    "unit/test_clustering_plan.py",
    "unit/test_compaction_files.py",
    "unit/test_container_index.py",
    "unit/test_erasure.py",
    "unit/test_explain_blob.py",
    "unit/test_forget.py",
    "unit/test_guards.py",
    "unit/test_kept_*.py",
    "unit/test_maintenance*.py",
    "unit/test_managed_roots.py",
    "unit/test_mark*.py",
    "unit/test_ray_datasource.py",
    "unit/test_registry.py",
    "unit/test_samples.py",
    "unit/test_service_lease.py",
    "unit/test_spread_files.py",
    "unit/test_sweep.py",
    "unit/test_torch_*.py",
    "unit/test_trash.py",
)
"""Blobs, the cleaner and the other services."""

_HALVES = {"vectors": VECTORS, "blobs": BLOBS}


def all_files() -> list[str]:
    """All files with tests, named from the folder of the tests, in the order in which they run."""
    return [f"{folder}/{file.name}" for folder in FOLDERS for file in sorted((TESTS / folder).glob("test_*.py"))]


def half_of(file: str) -> str | None:
    """The half that a file belongs to, or None for shared ground."""
    return next((half for half, names in _HALVES.items() if any(fnmatch(file, name) for name in names)), None)


def files_of(half: str) -> list[str]:
    """The files of a half and of the shared ground."""
    return [file for file in all_files() if half_of(file) in (half, None)]


if __name__ == "__main__":
    print(*(f"tests/{file}" for file in files_of(sys.argv[1])))
