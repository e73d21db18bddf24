"""The cases of Hudi's tests of `read_blob`, as statements of our own: both functions, beside the bytes of the files."""

from __future__ import annotations

import pytest
from support import differences, tables
from support.upstream import answer, assert_outcome, assert_rows, drop_views

CONTENT = bytes(range(256)) * 40
OTHER = CONTENT[::-1]


def ranges(file: str, offset: str, length: str = "100L", kind: str = "'OUT_OF_LINE'") -> str:
    """A query over `range` that gives a blob for each number, of a file's bytes."""
    return (
        f"named_struct('type', {kind}, 'data', CAST(NULL AS BINARY), 'reference', named_struct("
        f"'external_path', {file}, 'offset', CAST({offset} AS BIGINT), 'length', CAST({length} AS BIGINT), 'managed', false))"
    )


@pytest.fixture(scope="module")
def files(spark, workspace, quick_sql):
    first, second = workspace / "conform one.bin", workspace / "conform two.bin"
    first.write_bytes(CONTENT)
    second.write_bytes(OTHER)
    path = tables.fresh_path(workspace, "conform_photos")
    spark.sql(
        f"CREATE TABLE conform_photos (id INT, kind STRING, img BLOB, doc STRUCT<n: INT, scan: BLOB>) USING hudi "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id')"
    )
    rows = [
        f"1 AS id, 'a' AS kind, blob_ref('{first}', 0L, 100L) AS img, NULL AS doc",
        f"2, 'a', blob_ref('{first}', 200L, 100L), NULL",
        "3, 'b', NULL, NULL",
        f"4, 'b', blob_ref('{second}'), named_struct('n', 1, 'scan', to_blob(X'0a0b'))",
        "5, 'c', to_blob(X'0102'), NULL",
        "6, 'c', to_blob(X''), NULL",
    ]
    spark.sql("INSERT INTO conform_photos " + " UNION ALL ".join(f"SELECT {row}" for row in rows))
    both = f"IF(id % 2 = 0, '{first}', '{second}')"
    kinds = {
        "close": (20, ranges(f"'{first}'", "id * 150")),
        "gaps": (6, ranges(f"'{first}'", "IF(id < 3, id * 200, 5000 + id * 200)")),
        "files": (12, ranges(both, "(id * 7919) % 10000")),
        "same": (2, ranges(f"'{first}'", "id * 0")),
        "over": (2, ranges(f"'{first}'", "id * 50")),
        "half": (1, ranges(f"'{first}'", "id", "NULL")),
        "negative": (1, ranges(f"'{first}'", "id - 1")),
        "past": (1, ranges(f"'{first}'", "id + 10200")),
        "missing": (1, ranges(f"'{first}.gone'", "id")),
        "unknown": (1, ranges(f"'{first}'", "id", kind="'ELSEWHERE'")),
        "hollow": (1, ranges(f"'{first}'", "id", kind="'INLINE'")),
    }
    # Hudi's function takes columns of stored rows only: Spark would put an expression in the place of such a column.
    parts = [f"SELECT '{kind}' AS kind, id, {blob} AS img FROM range({count})" for kind, (count, blob) in kinds.items()]
    stored = str(workspace / "conform_ranges")
    spark.sql(" UNION ALL ".join(parts)).coalesce(1).write.parquet(stored)
    for kind in kinds:
        frame = spark.read.parquet(stored).where(f"kind = '{kind}'").select("id", "img")
        frame.createOrReplaceTempView(f"conform_{kind}")
    yield
    spark.sql("DROP TABLE conform_photos")
    drop_views(spark)


@pytest.fixture(params=["read_blob_native", "read_blob"])
def function(request):
    return request.param


PHOTOS = [(1, CONTENT[:100]), (2, CONTENT[200:300]), (3, None), (4, OTHER), (5, b"\1\2"), (6, b"")]
SIZES = [(1, 100), (2, 100), (3, None), (4, len(OTHER)), (5, 2), (6, 0)]

STATEMENTS = {
    "every kind of blob": ("SELECT id, {f}(img) AS b FROM conform_photos", PHOTOS),
    "where, of other columns": ("SELECT id, {f}(img) AS b FROM conform_photos WHERE id <= 3", PHOTOS[:3]),
    "where, of the bytes": ("SELECT id FROM conform_photos WHERE length({f}(img)) > 50", [(1,), (2,), (4,)]),
    "select and where": ("SELECT id, {f}(img) AS b FROM conform_photos WHERE length({f}(img)) = 100", PHOTOS[:2]),
    "where null": ("SELECT id FROM conform_photos WHERE {f}(img) IS NULL", [(3,)]),
    "subquery": (
        "SELECT id, b FROM (SELECT id, kind, {f}(img) AS b FROM conform_photos) WHERE kind = 'a'",
        PHOTOS[:2],
    ),
    "with": ("WITH p AS (SELECT id, {f}(img) AS b FROM conform_photos) SELECT id, length(b) AS n FROM p", SIZES),
    "limit inside": ("SELECT id, {f}(img) AS b FROM (SELECT * FROM conform_photos ORDER BY id LIMIT 2)", PHOTOS[:2]),
    "join": (
        "SELECT p.id, {f}(p.img) AS b, n.price FROM conform_photos p JOIN VALUES (1, 5), (4, 7) AS n(id, price) "
        "ON p.id = n.id",
        [(1, CONTENT[:100], 5), (4, OTHER, 7)],
    ),
    "case": (
        "SELECT id, CASE WHEN kind = 'a' THEN {f}(img) END AS b FROM conform_photos",
        [*PHOTOS[:2], *((i, None) for i in (3, 4, 5, 6))],
    ),
    "functions of the bytes": ("SELECT id, length({f}(img)) AS n FROM conform_photos", SIZES),
    "coalesce": (
        "SELECT id, coalesce({f}(img), X'00') AS b FROM conform_photos WHERE id IN (3, 5)",
        [(3, b"\0"), PHOTOS[4]],
    ),
    "twice in one row": (
        "SELECT {f}(img) AS b, {f}(img) AS c FROM conform_photos WHERE id = 1",
        [(CONTENT[:100], CONTENT[:100])],
    ),
    "union": (
        "SELECT {f}(img) AS b FROM conform_photos WHERE id = 1 UNION ALL SELECT {f}(img) FROM conform_photos WHERE id = 5",
        [(CONTENT[:100],), (b"\1\2",)],
    ),
    "distinct": ("SELECT DISTINCT {f}(img) AS b FROM conform_photos WHERE kind = 'c'", [(b"\1\2",), (b"",)]),
    "group by": (
        "SELECT length({f}(img)) AS n, count(*) AS m FROM conform_photos GROUP BY 1",
        [(None, 1), (0, 1), (2, 1), (100, 2), (len(OTHER), 1)],
    ),
    "no rows": ("SELECT id, {f}(img) AS b FROM conform_photos WHERE id > 100", []),
    "many ranges side by side": (
        "SELECT id, {f}(img) AS b FROM conform_close",
        [(i, CONTENT[150 * i : 150 * i + 100]) for i in range(20)],
    ),
    "small and large gaps": (
        "SELECT id, {f}(img) AS b FROM conform_gaps",
        [(i, CONTENT[o : o + 100]) for i, o in enumerate([0, 200, 400, 5600, 5800, 6000])],
    ),
    "two files in turns": (
        "SELECT id, {f}(img) AS b FROM conform_files",
        [(i, (OTHER if i % 2 else CONTENT)[i * 7919 % 10000 :][:100]) for i in range(12)],
    ),
}


@pytest.mark.parametrize(("statement", "expected"), STATEMENTS.values(), ids=STATEMENTS)
def test_the_bytes(spark, files, function, statement, expected):
    assert_rows(answer(spark.sql(statement.format(f=function))), expected)


def test_hudis_settings_of_reading_are_taken(spark, files, function):
    settings = {"hoodie.blob.batching.max.gap.bytes": "1024", "hoodie.blob.batching.lookahead.size": "3"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        found = answer(spark.sql(f"SELECT id, {function}(img) AS b FROM conform_close"))
    finally:
        for key in settings:
            spark.conf.unset(key)
    assert_rows(found, [(i, CONTENT[150 * i : 150 * i + 100]) for i in range(20)])


WRONG = {
    "a file that is not there": (
        "SELECT {f}(img) AS b FROM conform_missing",
        "conform one.bin.gone",
        "conform one.bin.gone",
    ),
    "a range past the end": ("SELECT {f}(img) AS b FROM conform_past", "EOF", "10200"),
    "a negative offset": ("SELECT {f}(img) AS b FROM conform_negative", "offset", "-1"),
    "an unknown type": ("SELECT {f}(img) AS b FROM conform_unknown", "ELSEWHERE", "ELSEWHERE"),
    "INLINE without bytes": ("SELECT {f}(img) AS b FROM conform_hollow", "INLINE", "INLINE and has no data"),
    "a column that is no blob": ("SELECT {f}(kind) AS b FROM conform_photos", "compatible with BlobType", "no blob"),
    "no argument": ("SELECT {f}() AS b FROM conform_photos", "exactly 1 argument", "0 arguments"),
}


@pytest.mark.parametrize(("statement", "hudis", "ours"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_an_error_of_both(spark, files, statement, hudis, ours):
    for function, words in (("read_blob_native", hudis), ("read_blob", ours)):
        with pytest.raises(Exception, match=r"(?s).") as caught:
            spark.sql(statement.format(f=function)).collect()
        assert words in str(caught.value)


@pytest.mark.parametrize("difference", differences.READ_BLOB, ids=lambda each: each.name)
def test_the_differences_that_docs_list(spark, files, difference):
    assert_outcome(spark, difference.statement.format(f="read_blob_native"), difference.hudi)
    assert_outcome(spark, difference.statement.format(f="read_blob"), difference.here)
