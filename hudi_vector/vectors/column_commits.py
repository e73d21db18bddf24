"""Commits that change one column of rows, and leave alone rows that other writers changed since they were read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hudi_vector.errors import RefusedError, number_of
from hudi_vector.schema import VectorType, quoted, vector_field
from hudi_vector.storage import join, open_storage
from hudi_vector.table.actions import read_action, write_statistics
from hudi_vector.table.native import NativeTable
from hudi_vector.vectors.embedding import KEYS, VECTOR
from hudi_vector.vectors.opened import data_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from hudi_vector.spark.blobs.table import BlobTable
    from hudi_vector.table.timeline import Instant
    from hudi_vector.writing.rewriting.rewrite import Rewriting

__all__ = ["ColumnCommits", "values_schema"]

_ATTEMPTS = 3
_VALUE = f"__hudi_vector_{VECTOR}"


def values_schema(vector: VectorType) -> StructType:
    """Return the columns of new values: `KEYS`, which name a version of a row, and `VECTOR`."""
    from pyspark.sql.types import StringType, StructField, StructType

    keys = [StructField(name, StringType()) for name in KEYS]
    return StructType([*keys, vector_field(VECTOR, vector.dimension, vector.element)])


@dataclass
class ColumnCommits:
    """The commits of a run that change a column: the rows they changed, and rows left since others changed them."""

    work: Rewriting
    column: str
    rows: int = 0
    changed: int = 0
    instants: list[str] = field(default_factory=list)

    def write(self, values_of: Callable[[BlobTable], DataFrame]) -> None:
        """Commit the new values that `values_of` makes of the table as it is now; they are computed once.

        Raises RefusedError if other writers changed the same files during each of three attempts.
        """
        from pyspark import StorageLevel

        from hudi_vector.writing.rewriting.rewrite import listed_now

        timeline = listed_now(self.work.known)
        values = values_of(self.work.now(timeline)).persist(StorageLevel.DISK_ONLY)
        try:
            asked = values.count()
            if asked:
                self._commit(values, asked, frozenset(timeline.commits))
        finally:
            values.unpersist()

    def written_bytes(self) -> int:
        """Return the bytes of the data files that the commits wrote."""
        native = NativeTable(self.work.known.source)
        made = {each.requested: each for each in native.timeline().commits if each.requested in self.instants}
        files = [native.config.layout.file(native.source.uri, each) for each in made.values()]
        records = native.storage.each(lambda file: read_action(native.storage, file), files)
        return sum(int(one.get("totalWriteBytes") or 0) for record in records for one in write_statistics(record))

    def _commit(self, values: DataFrame, asked: int, seen: frozenset[Instant]) -> None:
        from py4j.protocol import Py4JJavaError

        from hudi_vector.writing.committing.commits import new_token
        from hudi_vector.writing.failures import is_conflict
        from hudi_vector.writing.rewriting.rewrite import commit_rows, still_there

        for _ in range(_ATTEMPTS):
            table = self.work.now()
            targets = still_there(table, values)
            if targets is None:
                self.changed += asked
                return
            try:
                done = commit_rows(self.work, self._with_values(table, targets), table, new_token())
            except Py4JJavaError as problem:
                if not is_conflict(problem):
                    raise
                continue
            if done is not None:
                self._note(done.instant, values, asked, seen, done.updated or 0)
            return
        raise RefusedError(
            f"other writers changed the same files of '{self.work.table}' during each of {_ATTEMPTS} attempts to "
            f"change '{self.column}'; {number_of(self.rows, 'row is', 'rows are')} done, run it again when less is "
            "written"
        )

    def _with_values(self, table: BlobTable, targets: DataFrame) -> DataFrame:
        """Return the rows that still have the version that was read, whole, with their new values."""
        from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

        from hudi_vector.writing.rewriting.rewrite import same_rows

        new = F.col(_VALUE).alias(self.column, metadata=table.frame.schema[self.column].metadata)
        names = data_columns(table.frame)
        return same_rows(table, targets).select(
            *[new if name == self.column else F.col(quoted(name)) for name in names]
        )

    def _note(self, instant: str, values: DataFrame, asked: int, seen: frozenset[Instant], updated: int) -> None:
        """Restore the rows of other writers that the commit replaced, and count."""
        from hudi_vector.writing.rewriting.rewrite import reapply_overwritten

        source = self.work.known.source
        folder = join(source.uri, ".hoodie", ".temp", f"hudi-vector-{instant}")
        restored = reapply_overwritten(self.work, values.select(*KEYS), seen, instant, folder)
        if restored:
            open_storage(folder, source.options).remove_folder(folder)
        self.instants.append(instant)
        self.rows += updated - restored
        self.changed += asked - updated + restored
