"""The public interface is what `tests/fixtures/public-api.txt` says, so that a change of it is a decision."""

from __future__ import annotations

from difflib import unified_diff

from support import public_api

_WHAT_TO_DO = (
    "the public interface is another one than tests/fixtures/public-api.txt says; if that is wanted, write the file again "
    "by `make api`, and say in CHANGELOG.md what changes for users"
)


def test_the_public_interface_is_as_recorded() -> None:
    recorded = public_api.RECORD.read_text("utf-8").splitlines()
    changes = list(unified_diff(recorded, public_api.lines(), "recorded", "now", n=0, lineterm=""))
    assert not changes, "\n".join([_WHAT_TO_DO, *changes])


def test_the_record_has_functions_methods_results_options_errors_and_sql() -> None:
    lines = public_api.lines()
    assert len(set(lines)) == len(lines)
    for beginning in (
        "search(spark: SparkSession, table: ",
        "index.create(",
        "blobs.open(blob: Any, ",
        "table_services.maintain(",
        "errors.RefusedError(HudiVectorError)",
        "VectorTable.search(self, query: Any, ",  # of what hv.open returns
        "SearchHits.report: SearchReport",  # of what its methods return
        "SearchReport.returned: int",
        "SearchOptions.nprobes: int | None",
        "SQL hudi_vector_search",
    ):
        assert [line for line in lines if line.startswith(beginning)], beginning
