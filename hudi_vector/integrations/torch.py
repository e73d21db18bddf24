"""Datasets of PyTorch over the rows of a Hudi table with their blobs; needs the extra ``torch``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudi_vector.arguments import as_count, known_arguments
from hudi_vector.blobs.samples.index import SampleIndex, as_samples
from hudi_vector.blobs.samples.order import DEFAULT_BLOCK, SampleOrder, make_order
from hudi_vector.blobs.samples.plan import DEFAULT_BUDGET, make_plan
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, MissingDependencyError

try:
    import torch
    from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info
except ImportError as absent:
    raise MissingDependencyError(
        "hudi_vector.integrations.torch needs 'torch': install it with pip install 'hudi-vector[torch]'"
    ) from absent

__all__ = ["BlobBatchSampler", "BlobDataset", "IterableBlobDataset"]

Transform = Callable[[dict[str, Any]], Any]


class BlobDataset(Dataset):  # type: ignore[misc]
    """Rows of a Hudi table with their blobs, by position; a map-style dataset that reads a batch together.

    The rows are found once, when the dataset is made, without Spark: it keeps the plain columns and where each blob is,
    not the bytes. It can be used in workers that are forked or spawned: each opens its own files and connections.

    PyTorch 2 hands a whole batch to ``__getitems__``, which plans its ranges together. For PyTorch 1.13, let a batch
    be one index: ``DataLoader(dataset, sampler=batches, batch_size=None, collate_fn=default_collate)``, where
    `batches` is a `BlobBatchSampler`.

    Args:
        table: A Hudi table's base path.
        columns: The plain columns of a sample; by default all but Hudi's own.
        blobs: The BLOB columns of a sample, as bytes; by default all at the top level.
        filter: A condition on plain columns, in the language of `hudi_vector.search`; other rows are left out.
        as_of: An instant of the timeline, or a timestamp; by default now. Ranks that make a dataset each should give
            the same instant, for example the `instant` of the first.
        transform: Makes a sample of a dict of the row's values, in the worker; by default the dict is the sample. A
            blob is bytes, a vector is an array of numpy, and NULL is None.
        memory_budget: The number of bytes of blobs that a worker reads at a time; a larger blob is read alone.
        on_error: ``"raise"``, or ``"null"`` for None in place of bytes that cannot be read.
        storage_options: Hadoop's storage settings (``fs.s3a.endpoint`` …).
        zone: The zone of timestamps without one, in `filter` and `as_of`; by default UTC.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no Hudi table at the path.
        UnknownColumnError: The table has no such column.
        UnsupportedTableError: Only Spark can read the table.
        DataFileError: A file is gone or damaged.

    Example:
        >>> dataset = BlobDataset("/tables/photos", columns=["id"], filter="id != 'dog'")
        >>> len(dataset), dataset[0]
        (1, {'id': 'cat', 'image': b'catcat...'})
    """

    @known_arguments()
    def __init__(
        self,
        table: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        blobs: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - as searches call it
        as_of: Any = None,
        transform: Transform | None = None,
        memory_budget: int = DEFAULT_BUDGET,
        on_error: str = "raise",
        storage_options: Mapping[str, str] | None = None,
        zone: str | None = None,
    ) -> None:
        super().__init__()
        self._transform = _checked(transform)
        self._index = make_plan(
            table,
            columns=columns,
            blobs=blobs,
            filter=filter,
            as_of=as_of,
            memory_budget=memory_budget,
            on_error=on_error,
            storage_options=storage_options,
            zone=zone,
        ).index()

    @property
    def instant(self) -> str | None:
        """Return the newest instant of the rows; None if the table has no commit yet."""
        return self._index.instant

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, position: int | Sequence[int]) -> Any:
        """Return the sample at a position, or the list of samples at a list of positions."""
        if isinstance(position, Sequence):
            return self.__getitems__(position)
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[int]) -> list[Any]:
        """Return the samples at these positions, whose ranges are read together."""
        return list(_samples(self._index, positions, self._transform))


class BlobBatchSampler(Sampler):  # type: ignore[misc]
    """Batches of positions of a `BlobDataset`: in order or shuffled by seed, for one rank of several.

    The batches of a rank depend on the arguments and the epoch alone, not on the number of workers. A shuffle keeps
    blocks of neighbouring rows together, since their blobs lie side by side in a container.

    Args:
        dataset: The dataset, or any other of which the length is known.
        batch_size: The number of samples of a batch.
        shuffle: Whether rows are shuffled.
        seed: The seed of the shuffles.
        shuffle_block: How many neighbouring rows stay together in a shuffle; 1 shuffles single rows.
        rank: The number of this rank, from 0.
        world_size: The number of ranks; every batch goes to exactly one of them.
        drop_last: Whether batches are left out that are not full, or that not every rank has.

    Raises:
        InvalidArgumentError: An argument is not allowed.

    Example:
        >>> batches = BlobBatchSampler(range(5), batch_size=2)
        >>> list(batches)
        [[0, 1], [2, 3], [4]]
    """

    @known_arguments()
    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        shuffle_block: int = DEFAULT_BLOCK,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        self._order = make_order(
            len(dataset),
            batch_size,
            shuffle=shuffle,
            seed=seed,
            shuffle_block=shuffle_block,
            rank=rank,
            world_size=world_size,
            drop_last=drop_last,
        )
        self._epoch = self._first = 0
        self._place = (0, 0)

    def set_epoch(self, epoch: int, batches: int = 0) -> None:
        """Choose the epoch of the next passes, and how many batches of this rank each of them leaves out at its start.

        Args:
            epoch: The number of the epoch, from 0; each has its own shuffle.
            batches: The number of batches that were used before an interruption.
        """
        self._epoch, self._first = as_count(epoch, "epoch", 0) or 0, as_count(batches, "batches", 0) or 0
        self._place = (self._epoch, self._first)

    def __len__(self) -> int:
        return max(0, self._order.batches - self._first)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the positions of each batch."""
        epoch, first = self._epoch, self._first
        self._place = (epoch, first)
        for number in range(first, self._order.batches):
            self._place = (epoch, number + 1)
            yield self._order.batch(epoch, number).tolist()

    def state_dict(self) -> dict[str, Any]:
        """Return where the present pass is: its epoch, and the number of batches that were handed out.

        After `set_epoch` it is where the next pass begins. A DataLoader with workers asks for some batches ahead of
        those it has returned.
        """
        epoch, batches = self._place
        return {"epoch": epoch, "batches": batches, "order": _described(self._order)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a state was taken, by `set_epoch`; raise InvalidArgumentError for one of another order."""
        _require_same(state, _described(self._order))
        self.set_epoch(*_numbers(state, ("epoch", "batches")))


@dataclass(frozen=True)
class _Place:
    """A place in a pass: the epoch, the next batch of the rank, how many of its samples are done, and who was there."""

    epoch: int
    batch: int
    sample: int
    worker: int
    workers: int


class IterableBlobDataset(IterableDataset):  # type: ignore[misc]
    """Rows of a Hudi table with their blobs as a stream: shuffled by seed, divided among ranks and workers, resumable.

    `batch_size` rows are read together. Give a DataLoader the same batch size: then the batches of a rank, and their
    order, are the same for any number of workers. Worker w of n reads the batches w, w + n, w + 2 n … of its rank.

    It can be used in workers that are forked or spawned, and with torchdata's ``StatefulDataLoader``. `set_epoch`
    reaches persistent workers too.

    Args:
        table: As for `BlobDataset`, as are the other arguments that it has.
        batch_size: The number of rows that are read together.
        columns: The plain columns of a sample; by default all but Hudi's own.
        blobs: The BLOB columns of a sample, as bytes; by default all at the top level.
        filter: A condition on plain columns; other rows are left out.
        as_of: An instant of the timeline, or a timestamp; by default now.
        shuffle: Whether rows are shuffled.
        seed: The seed of the shuffles.
        shuffle_block: How many neighbouring rows stay together in a shuffle; 1 shuffles single rows.
        rank: The number of this rank, from 0.
        world_size: The number of ranks; every row goes to exactly one of them.
        drop_last: Whether batches are left out that are not full, or that not every rank has.
        transform: Makes a sample of a dict of the row's values, in the worker; by default the dict is the sample.
        memory_budget: The number of bytes of blobs that a worker reads at a time; a larger blob is read alone.
        on_error: ``"raise"``, or ``"null"`` for None in place of bytes that cannot be read.
        storage_options: Hadoop's storage settings (``fs.s3a.endpoint`` …).
        zone: The zone of timestamps without one, in `filter` and `as_of`; by default UTC.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no Hudi table at the path.
        UnknownColumnError: The table has no such column.
        UnsupportedTableError: Only Spark can read the table.
        DataFileError: A file is gone or damaged.

    Example:
        >>> dataset = IterableBlobDataset("/tables/photos", columns=["taken"], batch_size=64, shuffle=True, seed=1)
        >>> loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=2)
        >>> for epoch in range(2):
        ...     dataset.set_epoch(epoch)
        ...     for batch in loader:
        ...         print(sorted(batch["taken"].tolist()))
        [0, 1]
        [0, 1]
    """

    @known_arguments()
    def __init__(
        self,
        table: str | os.PathLike[str],
        *,
        batch_size: int = 64,
        columns: Sequence[str] | None = None,
        blobs: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - as searches call it
        as_of: Any = None,
        shuffle: bool = False,
        seed: int = 0,
        shuffle_block: int = DEFAULT_BLOCK,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        transform: Transform | None = None,
        memory_budget: int = DEFAULT_BUDGET,
        on_error: str = "raise",
        storage_options: Mapping[str, str] | None = None,
        zone: str | None = None,
    ) -> None:
        super().__init__()
        self._transform = _checked(transform)
        given = {"shuffle": shuffle, "seed": seed, "shuffle_block": shuffle_block, "drop_last": drop_last}
        given |= {"rank": rank, "world_size": world_size}
        make_order(0, batch_size, **given)  # refuses what is wrong before files are read
        self._index = make_plan(
            table,
            columns=columns,
            blobs=blobs,
            filter=filter,
            as_of=as_of,
            memory_budget=memory_budget,
            on_error=on_error,
            storage_options=storage_options,
            zone=zone,
        ).index()
        self._order = make_order(len(self._index), batch_size, **given)
        # Epoch and first batch; in memory that workers share, so that they reach those that live through epochs.
        self._pass = torch.zeros(2, dtype=torch.int64).share_memory_()
        self._resumed: _Place | None = None
        self._place: _Place | None = None
        # What `_pass` was when the present pass began.
        self._begun: list[int] | None = None

    @property
    def instant(self) -> str | None:
        """Return the newest instant of the rows; None if the table has no commit yet."""
        return self._index.instant

    def __len__(self) -> int:
        """Return the number of samples of this rank in an epoch."""
        return self._order.samples

    def set_epoch(self, epoch: int, batches: int = 0) -> None:
        """Choose the epoch of the next passes, and how many batches of this rank each of them leaves out at its start.

        Args:
            epoch: The number of the epoch, from 0; each has its own shuffle.
            batches: The number of batches that were used before an interruption, counted for the whole rank.

        The epoch of a loaded state, without batches, goes on where the state was taken.
        """
        chosen, first = as_count(epoch, "epoch", 0) or 0, as_count(batches, "batches", 0) or 0
        if self._resumed is not None and (first or chosen != self._resumed.epoch):
            self._resumed = None
        self._pass[0], self._pass[1] = chosen, first

    def __iter__(self) -> Iterator[Any]:
        """Yield the samples of this worker, from where a loaded state says, if one was loaded."""
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        begin, self._resumed = self._resumed, None
        self._begun = self._pass.tolist()
        if begin is None:
            epoch, first = self._begun
            begin = _Place(epoch, first + worker, 0, worker, workers)
        elif (begin.worker, begin.workers) != (worker, workers):
            begin = _elsewhere(begin, worker, workers)
        self._place = begin
        return self._run(begin)

    def state_dict(self) -> dict[str, Any]:
        """Return where the present pass is, in this worker; torchdata's ``StatefulDataLoader`` asks each one.

        After `set_epoch` it is where the next pass begins.
        """
        epoch, first = self._pass.tolist()
        present = self._place if self._begun == [epoch, first] else None
        place = self._resumed or present or _Place(epoch, first, 0, 0, 1)
        return {**vars(place), "order": self._described()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass continue where a state was taken.

        A state that was taken without workers can be continued with any number of them; one of a worker only by the
        same worker of as many.

        Args:
            state: What `state_dict` returned.

        Raises:
            InvalidArgumentError: The state is of other rows, or of another order.
        """
        _require_same(state, self._described())
        self._resumed = _Place(*_numbers(state, _Place.__dataclass_fields__))
        self._place = None
        self._pass[0], self._pass[1] = self._resumed.epoch, 0

    def _described(self) -> dict[str, Any]:
        return {**_described(self._order), "instant": self._index.instant}

    def _run(self, begin: _Place) -> Iterator[Any]:
        skipped = begin.sample
        for number in range(begin.batch, self._order.batches, begin.workers):
            positions = self._order.batch(begin.epoch, number)
            for done, sample in enumerate(_samples(self._index, positions[skipped:], self._transform), skipped + 1):
                at = (number, done) if done < len(positions) else (number + begin.workers, 0)
                self._place = _Place(begin.epoch, *at, begin.worker, begin.workers)
                yield sample
            skipped = 0


def _elsewhere(place: _Place, worker: int, workers: int) -> _Place:
    """Return where a worker begins when one process was at a place; raise InvalidArgumentError if it was a worker."""
    if place.workers != 1:
        raise InvalidArgumentError(
            f"the state is of worker {place.worker} of {place.workers}, and worker {worker} of {workers} cannot "
            "continue it; use as many workers as before, or set_epoch with the number of batches that were used"
        )
    return _Place(place.epoch, place.batch + worker, 0 if worker else place.sample, worker, workers)


def _described(order: SampleOrder) -> dict[str, Any]:
    return dict(vars(order))


def _require_same(state: Any, own: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError if a state is not one of these rows in this order."""
    try:
        held = dict(state["order"])
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidArgumentError(f"{state!r} is no state; give what state_dict returned"[:200]) from problem
    other = [name for name in own if held.get(name) != own[name]]
    if other:
        said = ", ".join(f"{name} {held.get(name)!r} instead of {own[name]!r}" for name in other)
        raise InvalidArgumentError(f"the state is of another dataset: {said}; make the dataset as it was made then")


def _numbers(state: Mapping[str, Any], names: Iterable[str]) -> list[int]:
    """Return numbers of a state; raise InvalidArgumentError if one is missing or is none."""
    found = list[int]()
    for name in names:
        number = state.get(name)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidArgumentError(f"the state has {name} {number!r}, not a number; give what state_dict returned")
        found.append(number)
    return found


def _checked(transform: Transform | None) -> Transform | None:
    if transform is not None and not callable(transform):
        raise InvalidTypeError(f"transform must be a function of a row's values, not {transform!r}")
    return transform


def _samples(index: SampleIndex, positions: Any, transform: Transform | None) -> Iterator[Any]:
    """Yield the samples at these positions; the bytes of one piece are held at a time where they are transformed."""
    for piece in index.pieces(positions):
        rows = as_samples(index.values(piece))
        yield from rows if transform is None else map(transform, rows)
