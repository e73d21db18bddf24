"""The fourteen things that a cleaner of references must promise, and its refusals, each with the tests that show it.

What is not shown elsewhere is shown here. A name in the list that no test bears fails.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from support.archives import OF_RELEASES, unpack
from support.blob_states import BlobTable, blob, write_id
from support.swept import interrupted

from hudi_vector.blobs.names import ContainerName
from hudi_vector.blobs.uploads import manifest
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.mark import find_unneeded

TESTS = Path(__file__).parents[1]
NOW = 1_790_000_000_000
DAY = 86_400_000
OLD = NOW - 30 * DAY

PROMISES = {
    "1 a grace on the age of files, of their writes and of the trash": [
        "unit/test_mark.py::test_the_grace_counts_both_times",
        "unit/test_mark.py::test_a_pending_ingest_keeps_what_is_not_older",
        "unit/test_mark.py::test_a_pending_instant_is_as_old_as_its_name_or_its_file",
        "unit/test_mark.py::test_the_zone_of_the_writers",
        "unit/test_trash.py::test_the_window_begins_when_the_sweep_ends",
        "unit/test_trash.py::test_a_restored_file_counts_as_new",
    ],
    "2 a dry run with the rows of the real run": [
        "unit/test_sweep.py::test_a_dry_run_changes_nothing_and_has_the_rows_of_the_real_run",
        "unit/test_managed_roots.py::test_to_the_trash_and_back",
        "integration/test_clean_blobs.py::test_clean_restore_mark_and_sweep",
    ],
    "3 a durable report, and a sweep of exactly that": [
        "unit/test_mark.py::test_a_mark_reads_back_as_it_was_published",
        "unit/test_sweep.py::test_a_file_that_changed_stays",
        "unit/test_guards.py::test_another_table_is_refused",
        "integration/test_clean_blobs.py::test_the_commands",
    ],
    "4 two marks that agree": [
        "unit/test_sweep.py::test_only_what_two_marks_agree_on_goes",
        "unit/test_sweep.py::test_a_second_mark_of_another_table_is_refused",
    ],
    "5 a source of references that cannot be read keeps everything": [
        "unit/test_mark.py::test_any_doubt_keeps_everything",
        "unit/test_mark.py::test_references_that_say_nothing_are_doubts",
        "unit/test_mark.py::test_manifests_of_another_version_are_a_doubt",
        "unit/test_sweep.py::test_a_doubt_of_either_mark_keeps_everything",
        "unit/test_registry.py::test_a_registered_table_that_cannot_be_read_stops_everything",
        "unit/test_registry.py::test_a_damaged_entry_stops_everything",
        "unit/test_registry.py::test_writes_whose_claims_are_unknown_stop_everything",
        "unit/test_page_checksums.py::test_a_flipped_bit_is_an_error",
        "integration/test_marks.py::test_a_bit_that_flipped_in_a_reference_is_a_doubt",
        "properties/test_mark_states.py::test_a_doubt_keeps_everything",
    ],
    "6 one identity for one file, whatever it is called": [
        "unit/test_mark.py::test_one_file_has_many_names",
        "unit/test_mark.py::test_one_file_at_two_paths_of_a_disk",
        "unit/test_mark.py::test_an_alias_that_nobody_here_can_resolve_is_a_doubt",
        "unit/test_mark_object_store.py::test_a_table_on_an_object_store",
        "unit/test_guards.py::test_the_spellings_of_one_place_are_one_table",
    ],
    "7 liveness over all that is retained": [
        "unit/test_mark.py::test_replaced_and_saved_and_pending_files_keep",
        "unit/test_mark.py::test_log_files_keep_and_say_so",
        "integration/test_marks.py::test_a_table_through_its_life",
        "integration/test_clean_histories.py::test_a_short_life",
    ],
    "8 any reference keeps, whatever its flag says": [
        "unit/test_cleaner_promises.py::test_any_reference_keeps_whatever_its_flag_says",
    ],
    "9 a trash with a way back": [
        "unit/test_trash.py::test_what_was_swept_comes_back",
        "unit/test_trash.py::test_another_file_is_never_overwritten",
        "unit/test_trash.py::test_the_trash_is_emptied_after_its_window",
        "unit/test_managed_roots.py::test_what_becomes_of_the_root_later",
    ],
    "10 a fence between writers, the check and the deletion": [
        "unit/test_mark.py::test_writes_that_may_commit_keep_theirs",
        "unit/test_mark.py::test_a_commit_during_the_reading_is_seen",
        "unit/test_sweep.py::test_two_sweeps_exclude_each_other",
        "unit/test_sweep.py::test_a_sweep_that_lost_its_lease_stops",
        "unit/test_registry.py::test_a_write_between_any_two_steps_of_a_sweep_loses_nothing",
        "unit/test_cleaner_promises.py::test_a_writer_between_upload_and_commit_at_any_step_of_a_clean",
    ],
    "11 retries that change nothing, and truthful counts": [
        "unit/test_sweep.py::test_a_file_that_is_gone_counts_as_done",
        "unit/test_sweep.py::test_what_storage_will_not_move_counts_as_failed",
        "unit/test_sweep.py::test_a_file_that_goes_at_the_last_moment_is_not_counted_twice",
        "unit/test_trash.py::test_what_storage_will_not_move_or_delete_stays",
    ],
    "12 its own files only": [
        "unit/test_sweep.py::test_only_own_containers_go",
        "unit/test_guards.py::test_only_containers_below_the_table_are_ours",
        "unit/test_guards.py::test_no_link_below_the_table_is_followed",
        "unit/test_mark.py::test_other_files_in_the_area_are_only_reported",
        "unit/test_managed_roots.py::test_without_a_root_they_are_reported_and_stay",
        "unit/test_managed_roots.py::test_links_below_a_root_are_not_followed",
    ],
    "13 a bound on how much goes": [
        "unit/test_sweep.py::test_too_much_at_once_is_refused",
        "unit/test_sweep.py::test_a_run_takes_the_oldest_and_the_rest_waits",
        "unit/test_managed_roots.py::test_the_share_counts_them_too",
    ],
    "what stops it, by the table in docs/explanation/cleaner.md": [
        "unit/test_sweep.py::test_too_much_at_once_is_refused",
        "unit/test_sweep.py::test_a_run_takes_the_oldest_and_the_rest_waits",
        "unit/test_service_lease.py::test_a_second_run_is_told_who_holds_it_until_when",
        "unit/test_sweep.py::test_a_file_that_changed_stays",
        "unit/test_sweep.py::test_only_own_containers_go",
        "unit/test_guards.py::test_no_link_below_the_table_is_followed",
        "unit/test_sweep.py::test_an_area_behind_a_link_is_not_touched",
        "unit/test_sweep.py::test_a_trash_behind_a_link_is_refused",
        "unit/test_registry.py::test_a_registered_table_that_cannot_be_read_stops_everything",
        "unit/test_registry.py::test_a_table_leaves_once_it_needs_nothing",
        "unit/test_registry.py::test_a_cleaner_under_way_is_waited_for",
        "unit/test_managed_roots.py::test_a_table_below_a_root_is_a_doubt",
        "unit/test_managed_roots.py::test_both_marks_must_name_the_root",
        "unit/test_erasure.py::test_a_doubt_leaves_it_open",
        "unit/test_odd_paths.py::test_a_nul_in_a_reference",
        "unit/test_odd_paths.py::test_a_name_that_is_not_utf8",
        "unit/test_odd_paths.py::test_a_loop_of_links",
        "integration/test_clean_blobs.py::test_refusals",
        "integration/test_sharing.py::test_a_table_that_borrows_blobs",
    ],
    "14 models, random histories, crashes, and tables of older releases": [
        "properties/test_mark_states.py::test_a_mark_knows_what_the_model_knows",
        "properties/test_sweep.py::test_no_history_loses_a_file",
        "unit/test_sweep.py::test_killed_between_any_two_steps_a_second_run_ends_it",
        "unit/test_sweep.py::test_a_killed_process_is_followed",
        "integration/test_sweep_object_store.py::test_killed_between_any_two_steps",
        "integration/test_clean_histories.py::test_a_short_life",
        "integration/test_killed.py::test_a_killed_driver_loses_nothing",
        "unit/test_cleaner_promises.py::test_tables_of_older_releases",
    ],
}


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_is_shown(promise: str) -> None:
    for name in PROMISES[promise]:
        file, _, function = name.partition("::")
        tree = ast.parse((TESTS / file).read_text("utf-8"))
        (found,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
        marks = {ast.unparse(decorator) for decorator in found.decorator_list}
        assert "pytest.mark.soak" not in marks, f"{name} does not run in CI"


@pytest.fixture
def table(tmp_path: Path) -> BlobTable:
    return BlobTable(tmp_path.resolve() / "t", OLD)


def marker(table: BlobTable) -> Callable[[], MarkReport]:
    return lambda: find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW)


@pytest.mark.parametrize("managed", [True, False, None])
@pytest.mark.parametrize("form", ["base", "avro", "parquet"])
def test_any_reference_keeps_whatever_its_flag_says(table: BlobTable, managed: bool | None, form: str) -> None:
    if form == "avro" and managed is None:
        managed = False  # the schema there has no NULL for it
    kept, orphan = table.container(write_id(OLD, 1)), table.container(write_id(OLD, 2))
    instant, value = table.instant(), blob(f"{table.uri}/{kept}", managed=managed)  # type: ignore[arg-type]
    if form == "base":
        table.base("f1", instant, {1: value})
    else:
        table.log("f1", instant, {1: value}, form)
    table.complete(instant)
    assert [file.path for file in marker(table)().candidates] == [orphan]


def test_a_writer_between_upload_and_commit_at_any_step_of_a_clean(tmp_path: Path) -> None:
    """What it uploads is never a candidate, and an old blob that it refers to again before the second mark stays."""
    again = []
    for step in range(1, 9):
        table = BlobTable(tmp_path.resolve() / str(step), OLD)
        orphans = [table.container(write_id(OLD, number)) for number in range(2)]
        fresh = []

        def write(table: BlobTable = table, orphans: list[str] = orphans, fresh: list[str] = fresh) -> None:
            table.clock_ms = NOW - 1000
            upload = manifest.open_upload(table.uri, {}, lease_ms=DAY, now_ms=NOW - 1000)
            fresh.append(table.container(upload.write_id))
            instant = table.instant()
            table.begin(instant)
            values = {1: blob(f"{table.uri}/{fresh[0]}")}
            if (table.path / orphans[0]).exists():
                values[2] = blob(f"{table.uri}/{orphans[0]}")
            table.log("f1", instant, values)
            table.complete(instant)

        mark = marker(table)
        with interrupted(step, write):
            report = mark()
            result = sweep(report, mark, limits=SweepLimits(100), now_ms=lambda: NOW)
        if not fresh:  # it had fewer steps
            continue
        assert (table.path / fresh[0]).exists()
        assert {file.path for file in result.deleted} <= set(orphans)
        again.append((table.path / orphans[0]).exists())
    # The lease is the first step, and the second mark comes after it.
    assert again[0]
    assert len(again) >= 4


@pytest.mark.parametrize("archive", OF_RELEASES, ids=lambda archive: archive.name.removesuffix(".tar.gz"))
def test_tables_of_older_releases(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    found = sorted(tmp_path.rglob("hoodie.properties"))
    (home,) = [each.parent.parent for each in found if "metadata" not in each.parts]
    table = str(home.resolve())
    name = ContainerName("", "img", write_id(OLD, 1), 0, 0, 0, "blob")
    orphan = Path(name.uri(table))
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"x")
    report = find_unneeded(table, grace_ms=DAY, now_ms=NOW + 3650 * DAY)
    assert report.doubts == ()
    assert [file.path for file in report.candidates] == [str(orphan.relative_to(table))]
    assert report.retained_files == report.opened_files > 0
