"""Datasets of PyTorch, run with the real library: `make torch-test` installs it, which takes 3 GB, and records the result."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from support.samples import Photos, photos

from hudi_vector import errors

pytest.importorskip(
    "torch",
    reason="PyPI's torch for Linux brings 3 GB of CUDA; `make torch-test` runs these and writes tests/torch.json",
)

from torch.utils.data import DataLoader, default_collate
from torchdata.stateful_dataloader import StatefulDataLoader

from hudi_vector.integrations.torch import BlobBatchSampler, BlobDataset, IterableBlobDataset

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata calls it
]

CONTEXTS = ["fork", "spawn"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Photos:
    return photos(tmp_path_factory.mktemp("torch"))


@pytest.fixture(scope="module")
def dataset(made: Photos) -> BlobDataset:
    return BlobDataset(made.path, columns=["id"])


def as_pairs(batch: list[dict[str, Any]]) -> list[tuple[int, bytes | None]]:
    return [(row["id"], row["img"]) for row in batch]


def loaded(dataset: Any, **settings: Any) -> list[list[int]]:
    """The ids of each batch."""
    with_workers = {"multiprocessing_context": "fork"} if settings.get("num_workers") else {}
    loader = DataLoader(dataset, collate_fn=list, **{**with_workers, **settings})
    return [[row["id"] for row in batch] for batch in loader]


def streamed(made: Photos, **settings: Any) -> IterableBlobDataset:
    return IterableBlobDataset(made.path, **{"batch_size": 6, "columns": ["id"], **settings})


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_dataset_by_position(made: Photos, dataset: BlobDataset, context: str) -> None:
    dataset[0]  # the parent reads before its workers do
    loader = DataLoader(
        dataset, batch_size=7, shuffle=True, num_workers=2, collate_fn=list, multiprocessing_context=context
    )
    assert dict(pair for batch in loader for pair in as_pairs(batch)) == made.rows
    assert len(dataset) == len(made.rows)


def test_a_batch_is_read_together(dataset: BlobDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    read = type(dataset._index).pieces
    monkeypatch.setattr(type(dataset._index), "pieces", lambda index, at: seen.append(len(at)) or read(index, at))
    assert sum(map(len, loaded(dataset, batch_size=10))) == len(dataset)
    assert seen == [10, 10, 10, 10, 1]


def test_a_sampler_of_batches_gives_one_order_for_any_workers(dataset: BlobDataset) -> None:
    batches = BlobBatchSampler(dataset, 6, shuffle=True, seed=5, shuffle_block=3)
    batches.set_epoch(4)
    expected = [[dataset[position]["id"] for position in batch] for batch in batches]
    for workers in (0, 1, 3):
        assert loaded(dataset, batch_sampler=batches, num_workers=workers) == expected
    # A batch as one index: the form for PyTorch before 2.0, which asks for rows one by one.
    assert loaded(dataset, sampler=batches, batch_size=None) == expected
    batches.set_epoch(5)
    assert loaded(dataset, batch_sampler=batches) != expected
    batches.set_epoch(4, batches=2)
    assert loaded(dataset, batch_sampler=batches, num_workers=2) == expected[2:]
    assert len(batches) == len(expected) - 2


def test_a_sampler_is_resumed(dataset: BlobDataset) -> None:
    batches = BlobBatchSampler(dataset, 6, shuffle=True)
    batches.set_epoch(1)
    whole = list(batches)
    begun = iter(batches)
    for _ in range(3):
        next(begun)
    state = pickle.loads(pickle.dumps(batches.state_dict()))
    again = BlobBatchSampler(dataset, 6, shuffle=True)
    again.load_state_dict(state)
    assert list(again) == whole[3:]
    with pytest.raises(errors.InvalidArgumentError, match=r"^the state is of another dataset: seed 0 instead of 1"):
        BlobBatchSampler(dataset, 6, shuffle=True, seed=1).load_state_dict(state)


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_stream_gives_the_same_batches_for_any_workers(made: Photos, workers: int, shuffle: bool) -> None:
    stream = streamed(made, shuffle=shuffle, seed=9)
    stream.set_epoch(2)
    rows = list(stream)
    found = loaded(stream, batch_size=6, num_workers=workers)
    assert found == [[row["id"] for row in rows[start : start + 6]] for start in range(0, len(rows), 6)]
    assert {row["id"]: row["img"] for row in rows} == made.rows
    assert len(stream) == len(rows) == len(made.rows)


def test_ranks_and_workers_share_every_row(made: Photos) -> None:
    ranks = [streamed(made, shuffle=True, rank=rank, world_size=3) for rank in range(3)]
    ids = [row for one in ranks for batch in loaded(one, batch_size=6, num_workers=2) for row in batch]
    assert sorted(ids) == sorted(made.rows)
    even = [streamed(made, rank=rank, world_size=3, drop_last=True) for rank in range(3)]
    assert [len(list(one)) for one in even] == [len(one) for one in even] == [12, 12, 12]


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_that_live_on_learn_of_the_next_epoch(made: Photos, context: str) -> None:
    stream = streamed(made, shuffle=True)
    loader = DataLoader(
        stream, batch_size=6, num_workers=2, persistent_workers=True, collate_fn=list, multiprocessing_context=context
    )
    for epoch in range(3):
        stream.set_epoch(epoch)
        found = [row["id"] for batch in loader for row in batch]
        again = streamed(made, shuffle=True)
        again.set_epoch(epoch)
        assert found == [row["id"] for row in again]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("done", [0, 1, 3, 4, 7])
def test_a_stream_is_resumed_by_torchdata(made: Photos, workers: int, done: int) -> None:
    def loader() -> StatefulDataLoader:
        stream = streamed(made, shuffle=True, seed=3)
        stream.set_epoch(1)
        context = "fork" if workers else None
        return StatefulDataLoader(
            stream, batch_size=6, num_workers=workers, collate_fn=list, multiprocessing_context=context
        )

    whole = [as_pairs(batch) for batch in loader()]
    begun = loader()
    batches = iter(begun)
    before = [as_pairs(next(batches)) for _ in range(done)]
    state = pickle.loads(pickle.dumps(begun.state_dict()))
    again = loader()
    again.load_state_dict(state)
    rest = [as_pairs(batch) for batch in again]
    assert before + rest == whole
    # The next pass begins anew.
    assert [as_pairs(batch) for batch in again] == whole


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_stream_is_resumed_by_counting_batches(made: Photos, workers: int) -> None:
    stream = streamed(made, shuffle=True, seed=3)
    stream.set_epoch(1)
    whole = loaded(stream, batch_size=6)
    stream.set_epoch(1, batches=4)
    assert loaded(stream, batch_size=6, num_workers=workers) == whole[4:]


def test_a_state_in_the_middle_of_a_batch(made: Photos) -> None:
    stream = streamed(made, shuffle=True)
    whole = [row["id"] for row in stream]
    for done in range(len(whole) + 1):
        rows = iter(stream)
        before = [next(rows)["id"] for _ in range(done)]
        again = streamed(made, shuffle=True)
        again.load_state_dict(stream.state_dict())
        assert before + [row["id"] for row in again] == whole
    rows = iter(stream)
    for _ in range(8):
        next(rows)
    again.load_state_dict(stream.state_dict())
    assert sorted(row for batch in loaded(again, batch_size=6, num_workers=2) for row in batch) == sorted(whole[8:])


def test_a_state_before_a_pass_is_where_it_begins(made: Photos, dataset: BlobDataset) -> None:
    stream = streamed(made, shuffle=True)
    list(stream)
    stream.set_epoch(1, batches=2)
    again = streamed(made, shuffle=True)
    again.load_state_dict(stream.state_dict())
    again.set_epoch(1)  # the epoch of the state goes on, as a loop over epochs asks for
    assert [row["id"] for row in again] == [row["id"] for row in stream]
    again.load_state_dict(stream.state_dict())
    again.set_epoch(2)  # another one begins
    stream.set_epoch(2)
    assert [row["id"] for row in again] == [row["id"] for row in stream]
    batches = BlobBatchSampler(dataset, 6, shuffle=True)
    list(batches)
    batches.set_epoch(1)
    resumed = BlobBatchSampler(dataset, 6, shuffle=True)
    resumed.load_state_dict(batches.state_dict())
    assert list(resumed) == list(batches)


@pytest.mark.parametrize("change", [{"epoch": "x"}, {"batch": -1}, {"sample": None}])
def test_states_with_wrong_numbers(made: Photos, change: dict[str, Any]) -> None:
    stream = streamed(made)
    with pytest.raises(errors.InvalidArgumentError, match=r"^the state has \w+ .*, not a number; give what state_dict"):
        stream.load_state_dict({**stream.state_dict(), **change})


def test_states_that_do_not_fit(made: Photos) -> None:
    stream = streamed(made)
    state = stream.state_dict()
    with pytest.raises(
        errors.InvalidArgumentError, match=r"^the state is of another dataset: batch_size 6 instead of 5; make"
    ):
        streamed(made, batch_size=5).load_state_dict(state)
    with pytest.raises(errors.InvalidArgumentError, match=r"^\{\} is no state; give what state_dict returned"):
        stream.load_state_dict({})
    stream.load_state_dict({**state, "worker": 1, "workers": 2})
    with pytest.raises(
        errors.InvalidArgumentError, match=r"^the state is of worker 1 of 2, and worker 0 of 1 cannot continue it"
    ):
        iter(stream)


def test_a_transform_makes_samples_that_collate(made: Photos) -> None:
    dataset = BlobDataset(made.path, columns=["id"], transform=measured, memory_budget=10)
    batch = default_collate(dataset[[0, 1, 2]])
    assert batch["size"].tolist() == [len(made.rows[row] or b"") for row in batch["id"].tolist()]
    streamed_sizes = [row["size"] for row in streamed(made, transform=measured)]
    assert streamed_sizes == [dataset[position]["size"] for position in range(len(dataset))]


def measured(row: dict[str, Any]) -> dict[str, int]:
    return {"id": row["id"], "size": len(row["img"] or b"")}


def test_a_lost_container_is_one_sentence_in_a_worker(tmp_path: Path) -> None:
    made = photos(tmp_path, logged=False)
    dataset = BlobDataset(made.path)
    made.container.unlink()
    with pytest.raises(
        errors.BlobReadError, match=r"the blob at '.*' \(offset 0, length 9\) cannot be read: the file is gone"
    ):
        loaded(dataset, batch_size=4, num_workers=1)


def test_wrong_input(made: Photos, dataset: BlobDataset) -> None:
    with pytest.raises(errors.InvalidTypeError, match=r"^transform must be a function of a row's values, not 'decode'"):
        BlobDataset(made.path, transform="decode")
    with pytest.raises(errors.InvalidArgumentError, match=r"^there is no row 41: the dataset of"):
        dataset[41]
    with pytest.raises(
        errors.InvalidTypeError, match=r"^BlobDataset has no argument 'column'; did you mean 'columns'\?"
    ):
        BlobDataset(made.path, column=["id"])
    with pytest.raises(errors.InvalidArgumentError, match=r"^rank 1 is not one of 1 ranks"):
        streamed(made, rank=1)
    with pytest.raises(errors.InvalidArgumentError, match=r"^epoch must be a whole number, 0 or more, not -1"):
        BlobBatchSampler(dataset, 4).set_epoch(-1)
