"""Samples for training: found once, and read in any process, by a model of the table."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.blob_states import blob, inline
from support.samples import ROWS, Photos, photos

from hudi_vector import errors
from hudi_vector.blobs.samples.index import SampleIndex
from hudi_vector.blobs.samples.plan import make_plan
from hudi_vector.storage.ranges import Reads


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Photos:
    return photos(tmp_path_factory.mktemp("samples"))


@pytest.fixture(scope="module")
def index(made: Photos) -> SampleIndex:
    return make_plan(made.path, columns=["id"]).index()


def by_id(columns: dict[str, list[Any]]) -> dict[int, Any]:
    found = dict(zip(columns["id"], columns["img"], strict=True))
    assert len(found) == len(columns["id"])
    return found


def test_every_row_is_there_once_with_its_bytes(made: Photos, index: SampleIndex) -> None:
    assert len(index) == len(made.rows) == ROWS + 1
    assert by_id(index.read(range(len(index)))) == made.rows


def test_positions_are_answered_in_their_order_and_as_often(made: Photos, index: SampleIndex) -> None:
    ids = index.read(range(len(index)))["id"]
    chosen = random.Random(1).choices(range(len(index)), k=100)
    found = index.read(chosen)
    assert found["id"] == [ids[position] for position in chosen]
    assert found["img"] == [made.rows[number] for number in found["id"]]
    assert index.read([]) == {"id": [], "img": []}


def test_the_order_of_rows_does_not_depend_on_the_listing(made: Photos, index: SampleIndex) -> None:
    again = make_plan(made.path, columns=["id"]).index()
    everything = range(len(index))
    assert again.read(everything) == index.read(everything)
    assert index.read(everything)["id"][-ROWS // 2 :] == list(range(ROWS // 2, ROWS))


def test_a_filter_and_a_point_in_the_past(made: Photos) -> None:
    first = make_plan(made.path, columns=["id"]).snapshot.source
    some = make_plan(made.path, filter="id IN (0, 2, 4, 6, 8) AND ts > 0", columns=[]).index()
    assert some.read(range(len(some)))["img"] == [made.rows[number] for number in (0, 2, 8, 4, 6)]
    commits = sorted(path.name[:17] for path in made.table.timeline.glob("*.commit"))
    before = make_plan(made.path, columns=["id"], as_of=commits[0])
    assert before.instant == commits[0]
    past = before.index()
    rows = by_id(past.read(range(len(past))))
    assert sorted(rows) == list(range(ROWS))
    assert (rows[1], rows[4]) == (bytes(range(4, 13)), b"inline 4")
    assert first.uri == past.fetcher.table


def test_columns_are_chosen_in_any_case(made: Photos) -> None:
    found = make_plan(made.path, columns=["ID", "_hoodie_record_key"], blobs=[]).index().read([0])
    assert found == {"id": [0], "_hoodie_record_key": ["0"]}
    assert list(make_plan(made.path).index().read([0])) == ["id", "ts", "img"]
    assert make_plan(made.path, columns=[], blobs=["IMG"]).index().read([0]) == {"img": [made.rows[0]]}


@pytest.mark.parametrize("budget", [1, 20, 1 << 20])
def test_pieces_hold_no_more_than_the_budget_or_one_row(made: Photos, budget: int) -> None:
    index = make_plan(made.path, columns=["id"], memory_budget=budget).index()
    pieces = list(index.pieces(range(len(index))))
    sizes = [sum(len(value) for value in piece["img"].to_pylist() if value) for piece in pieces]
    assert all(size <= budget or piece.num_rows == 1 for size, piece in zip(sizes, pieces, strict=True))
    assert {n: v for piece in pieces for n, v in zip(*piece.to_pydict().values(), strict=True)} == made.rows
    assert (len(pieces) == 1) == (budget == 1 << 20)


def test_the_ranges_of_a_batch_are_planned_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one container, in any order, are one read."""
    from hudi_vector.blobs.reading import fetch

    table = photos(tmp_path, logged=False)
    index = make_plan(table.path, columns=["id"]).index()
    outside = [number for number, row in enumerate(index.read(range(len(index)))["id"]) if row % 5 < 3]
    seen: list[Reads] = []

    def noted(reads: Reads, *others: Any) -> Any:
        seen.append(reads)
        return transfer(reads, *others)

    transfer = fetch.transfer
    monkeypatch.setattr(fetch, "transfer", noted)
    found = index.read(random.Random(2).sample(outside, len(outside)))
    assert found["img"] == [table.rows[number] for number in found["id"]]
    assert [len(reads) for reads in seen if len(reads)] == [1]


def test_an_index_is_small_and_holds_nothing_open(made: Photos, index: SampleIndex) -> None:
    index.read(range(len(index)))  # opens base files
    sent = pickle.dumps(index)
    assert len(sent) < 20_000
    again: SampleIndex = pickle.loads(sent)
    assert by_id(again.read(range(len(again)))) == made.rows
    assert again.nbytes < 100 * len(again)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_read_what_their_parent_planned(made: Photos, index: SampleIndex, method: str) -> None:
    """The parent has read before: its files and threads are not those of its children."""
    everything = list(range(len(index)))
    expected = index.read(everything)
    with multiprocessing.get_context(method).Pool(2) as pool:
        parts = pool.map(index.read, [everything[0::2], everything[1::2], everything], chunksize=1)
    assert parts[2] == expected
    assert by_id(parts[0]) | by_id(parts[1]) == made.rows
    assert index.read(everything) == expected


def test_threads_share_an_index(made: Photos, index: SampleIndex) -> None:
    found: list[dict[int, Any]] = []
    everything = range(len(index))
    threads = [threading.Thread(target=lambda: found.append(by_id(index.read(everything)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [made.rows] * 4


def test_a_lost_container_is_one_sentence(tmp_path: Path) -> None:
    table = photos(tmp_path, logged=False)
    index, lenient = (make_plan(table.path, columns=["id"], on_error=each).index() for each in ("raise", "null"))
    position = index.read(range(len(index)))["id"].index(7)
    table.container.unlink()
    relative = table.container.relative_to(table.table.path)
    with pytest.raises(errors.BlobReadError) as caught:
        index.read([position])
    assert str(caught.value) == (
        f"the blob at '{relative}' (offset 28, length 9) cannot be read: the file is gone, or was never there; the "
        f"dataset has the rows of '{table.path}' as of {index.instant}, so make it again if the table was cleaned or "
        "compacted since"
    )
    kept = {number: value if number % 5 == 4 else None for number, value in table.rows.items()}
    assert by_id(lenient.read(range(len(lenient)))) == kept


def test_a_lost_base_file_is_one_sentence(tmp_path: Path) -> None:
    table = photos(tmp_path, logged=False)
    index = make_plan(table.path, columns=["id"], filter="id = 24").index()
    next(table.table.path.glob("f2*.parquet")).unlink()
    with pytest.raises(errors.BlobReadError, match=r"the base file '.*f2_.*' is gone.*so make it again"):
        index.read([0])


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("seed", range(3))
def test_histories(tmp_path: Path, form: str, seed: int) -> None:
    """After every commit to log files a dataset has the rows of a model of the table."""
    chance = random.Random(seed)
    made = photos(tmp_path, logged=False)
    model = dict(made.rows)
    for step in range(3):
        instant = made.table.instant()
        chosen = chance.sample(range(ROWS // 2), 6)
        values = {key: chance.choice([None, inline(b"%d" % step), blob(str(made.container), key, 3)]) for key in chosen}
        values[200 + step] = inline(b"more")
        made.table.log("f1", instant, values, form)
        made.table.complete(instant)
        model |= {
            key: None if value is None else value["data"] or bytes(range(key, key + 3)) for key, value in values.items()
        }
        index = make_plan(made.path, columns=["id"]).index()
        assert by_id(index.read(range(len(index)))) == model, f"step {step}"


def test_wrong_positions(index: SampleIndex) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"^there is no row 41: the dataset of '.*' has 41 rows"):
        index.read([0, 41])
    with pytest.raises(errors.InvalidArgumentError, match=r"^there is no row -1"):
        index.read([-1])
    with pytest.raises(errors.InvalidTypeError, match=r"^positions are a list of whole numbers, not \[0\.5\]"):
        index.read([0.5])


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"columns": "id"}, errors.InvalidTypeError, "columns must be a list of names, not 'id'"),
    ({"columns": ["idd"]}, errors.UnknownColumnError, "column 'idd' does not exist in '{table}'; did you mean 'id'?"),
    ({"columns": ["img"]}, errors.InvalidArgumentError, "column 'img' of '{table}' is a BLOB; name it in blobs, not in columns"),
    ({"columns": [], "blobs": []}, errors.InvalidArgumentError, "columns and blobs leave no column of '{table}'; name at least one"),
    ({"blobs": "img"}, errors.InvalidTypeError, "blobs must be a list of names, not 'img'"),
    ({"blobs": ["id"]}, errors.InvalidTypeError, "column 'id' of '{table}' is no BLOB; its BLOB columns are img"),
    ({"filter": "img IS NULL"}, errors.InvalidArgumentError, "the filter 'img IS NULL' names the BLOB column 'img'; a dataset is filtered by its other columns"),
    ({"filter": 1}, errors.InvalidTypeError, "the argument 'filter' must be text, not 1"),
    ({"memory_budget": 0}, errors.InvalidArgumentError, "memory_budget must be a whole number, 1 or more, not 0"),
    ({"on_error": "skip"}, errors.InvalidArgumentError, "on_error = 'skip' is not allowed: give 'raise' or 'null'"),
    ({"as_of": "soon"}, errors.InvalidArgumentError, "as_of = 'soon' is no instant and no timestamp: give an instant of the timeline (14 or 17 digits), or a timestamp such as '2026-11-21 10:00:00'"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "sentence"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_wrong_input(made: Photos, arguments: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        make_plan(made.path, **arguments)
    assert type(caught.value) is error
    assert str(caught.value) == sentence.format(table=made.path)


def test_tables_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(errors.TableNotFoundError, match=r"^there is no Hudi table at"):
        make_plan(str(tmp_path / "none"))
    other = photos(tmp_path, logged=False)
    instant = other.table.instant()
    other.table.lance("f3", instant, {50: None})
    other.table.complete(instant, "commit")
    with pytest.raises(
        errors.UnsupportedTableError, match=r"cannot be read without Spark, since its base files are not P"
    ):
        make_plan(other.path)


def test_a_merge_of_the_users_own_is_refused(tmp_path: Path) -> None:
    made = photos(tmp_path)
    properties = made.table.path / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("EVENT_TIME_ORDERING", "CUSTOM")
    properties.write_text("\n".join(line for line in text.splitlines() if "checksum" not in line) + "\n")
    with pytest.raises(
        errors.UnmergeableError, match=r"a merge mode or payload of the user's own.*; compact it first$"
    ):
        make_plan(made.path).index()


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    from support.blob_states import OLD, BlobTable

    settings = {"hoodie.table.version": "9", "hoodie.timeline.layout.version": "2"}
    table = BlobTable(tmp_path.resolve() / "t", OLD, properties=settings)
    table.complete(table.instant(), "commit")
    index = make_plan(str(table.path)).index()
    assert len(index) == 0
    assert index.read(np.array([], np.int64)) == {"id": [], "ts": [], "img": []}
