"""The public function ``hudi_vector.write``: writes a checked DataFrame into a Hudi table.

All checks run before Hudi is called, so that a refused write leaves no trace on the timeline.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import (
    InvalidArgumentError,
    TableNotFoundError,
    UnknownColumnError,
)
from hudi_vector.options import ERASED_KEYS, INVALID_VECTORS, require_known_in_session, without_effect
from hudi_vector.progress import tasks_followed
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.fitness import require_fit, require_workers
from hudi_vector.spark.catalyst.local_rows import no_rows
from hudi_vector.spark.catalyst.settings import session_settings
from hudi_vector.table.avro_schema import WRITTEN_BY_HUDI
from hudi_vector.writing.blobs.columns import converted_schema
from hudi_vector.writing.blobs.plan import plan_blobs
from hudi_vector.writing.blobs.upload import BlobTarget, upload_and_write
from hudi_vector.writing.committing.hand_over import Handing, hand_to_hudi
from hudi_vector.writing.erased.rows import OFF, without_erased
from hudi_vector.writing.failures import in_one_sentence
from hudi_vector.writing.files import Files
from hudi_vector.writing.findings import Findings, inspect_rows, refuse_duplicates, refuse_invalid, refusing_invalid
from hudi_vector.writing.hudi_options import (
    DROP_COLUMNS,
    DUPLICATES,
    SESSION_KEYS,
    read_settings,
)
from hudi_vector.writing.layout import Layout, agree_on_layout, agree_on_vectors
from hudi_vector.writing.local_frames import ArrowStream, spark_frame
from hudi_vector.writing.new_table import NewTable
from hudi_vector.writing.partition_values import FolderNames, refusing_partitions
from hudi_vector.writing.request import BlobSpecs, VectorSpec, WriteRequest, write_request
from hudi_vector.writing.result import WriteResult
from hudi_vector.writing.target import Target, resolve_target, vector_columns
from hudi_vector.writing.vectors.columns import VectorColumn, as_arrays, vector_column
from hudi_vector.writing.write_plan import WritePlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd
    from pyspark.sql.types import StructType

    from hudi_vector.writing.blobs.staging import StagedRows

__all__ = ["plan_write", "write"]

_LOG = logging.getLogger(__name__)

_FRAME = "the DataFrame"
_ONE_TASK = 32 << 20
_MANY_ROWS = 10_000
# A commit without rows needs no clean, no archiving, and no timeline server for markers.
_FOR_NO_ROWS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}


@known_arguments()
def write(
    df: DataFrame | pd.DataFrame | ArrowStream,
    table: str | os.PathLike[str],
    *,
    record_key: str | Iterable[str],
    partition_by: str | Iterable[str] | None = None,
    ordering: str | Iterable[str] | None = None,
    table_type: str | None = None,
    operation: str = "upsert",
    vectors: Mapping[str, VectorSpec] | None = None,
    blobs: Iterable[str] | BlobSpecs | None = None,
    options: Mapping[str, object] | None = None,
    sort_by: str | Iterable[str] | None = None,
    spark: SparkSession | None = None,
) -> WriteResult:
    """Write a DataFrame with vector or blob columns into a Hudi table, creating the table if it does not exist.

    Vectors may be arrays of any numeric type, Spark ML vectors, or bytes (little-endian elements). Every vector is
    checked before anything is written. The setting ``hoodie.vector.invalid``, in ``options`` or in the session, decides
    what happens to an invalid one (wrong length, NULL, NaN or infinite elements, elements out of range): ``fail``
    refuses the write, ``skip`` leaves the row out, ``null`` stores NULL. NULL instead of a vector is valid if the
    column is nullable. ``hoodie.vector.erased.keys`` decides in the same way about rows whose keys were erased.

    The first load of a table is several times faster with ``operation="bulk_insert"``, which looks up no keys. On a
    terminal one line shows the tasks that are done; elsewhere the log does, every 30 seconds.

    The rows are read twice, once for the checks and once for the write. Cache a DataFrame that is expensive to compute
    or that may return different rows each time. With blob columns the DataFrame is read only once, and the first row
    with an array that is no valid vector ends the write, before its blob is stored.

    Blobs may be bytes, paths of files (text; the files stay where they are), or blob structs. Bytes below
    ``hoodie.storage.blob.inline.threshold`` (1 MiB) are stored in the table's own files, larger ones in container files
    below the table's ``.hoodie/blobs``, before Hudi commits the rows that refer to them. If there is no table yet, a
    write with blobs first creates it by a separate commit without rows, and removes it again if the write fails before
    Hudi gets its rows.

    Operations that keep duplicates (``insert``, ``bulk_insert``, the overwrites) refuse a DataFrame in which a key
    occurs twice; ``insert`` also refuses keys that the table has already. ``hoodie.datasource.insert.dup.policy``
    (``drop`` or ``none``) changes that. ``bulk_insert`` never looks up its keys in the table: the caller must make sure
    that they are new.

    Args:
        df: The rows: a DataFrame of Spark, pandas or polars, an Arrow table, or anything that has
            ``__arrow_c_stream__``. For ``delete`` the key, partition and ordering columns are enough.
        table: A path with any scheme that Spark knows (it contains a slash, or is a path object), or a catalog name. A
            catalog table that does not exist is created as a managed table.
        record_key: The column or columns that identify a row.
        partition_by: The partition column or columns; an existing table keeps its own.
        ordering: The column or columns that decide which of two rows with the same key is newer.
        table_type: ``"cow"`` (the default of a new table) or ``"mor"``; ``"COPY_ON_WRITE"`` and ``"MERGE_ON_READ"`` are
            the same.
        operation: ``upsert``, ``insert``, ``bulk_insert``, ``delete``, ``insert_overwrite`` (the partitions that occur
            in ``df``) or ``insert_overwrite_table``.
        vectors: The vector columns: ``{"emb": 128}``, ``{"emb": (128, "double")}`` or ``{"emb": "VECTOR(128, INT8)"}``.
            Columns whose metadata says VECTOR, in the DataFrame or in the table, need not be named.
        blobs: The blob columns by dotted path: ``["image"]``, or with settings per column
            ``{"image": {"inline.threshold": "64KB", "format": "raw", "check_files": False}}``, where ``check_files``
            says whether referenced files must exist. Columns whose metadata says BLOB, in the DataFrame or in the
            table, need not be named.
        options: Any of Hudi's settings, for example clustering or the codec. Unless a codec is set here, in the session
            or in the table's properties, tables with vectors or blobs are written with snappy, which adds almost
            nothing to the time it takes to read vectors.
        sort_by: For ``bulk_insert``, the columns by which the rows of a file are sorted.
        spark: The session for rows that are no Spark DataFrame; by default the active one.

    Returns:
        The instant that was made, the numbers of changed rows and of those left out, and the invalid vectors by column
        and reason.

    Raises:
        InvalidArgumentError: An argument is not allowed or differs from the existing table, keys occur twice, or text
            of a partition column is no path of a partition, as ``..``.
        UnknownColumnError: A named column is not in the DataFrame.
        DimensionMismatchError: Vectors have another length than the column.
        InvalidVectorError: Vectors are invalid and the policy is ``fail``.
        InvalidTypeError: A column cannot be converted to vectors or blobs.
        InvalidBlobError: A blob's fields contradict each other, or it refers to a file or range that does not exist.
        BlobWriteError: Bytes could not be stored.
        SessionError: There is no session, or it has no Hudi, or its Python workers cannot load this package.
        WriteError: Spark or Hudi failed; the log has the full exception.
        TableNotFoundError: There is no table to delete from, or no such database.
        UnsupportedTableError: The name belongs to a view or to a table of another format.

    Example:
        >>> import hudi_vector as hv
        >>> df = spark.createDataFrame([(1, [0.1, 0.2]), (2, [0.3, 0.4])], "id INT, embedding ARRAY<FLOAT>")
        >>> hv.write(df, "/tables/things", record_key="id", vectors={"embedding": 2}).inserted
        2
    """
    df = _batch_frame(df, spark)
    request = write_request(
        table,
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        table_type=table_type,
        operation=operation,
        vectors=vectors,
        blobs=blobs,
        options=options,
        sort_by=sort_by,
    )
    with in_one_sentence(f"the write to '{request.table}' failed"):
        return _write(_without_meta_columns(df), request)


def _write(df: DataFrame, request: WriteRequest) -> WriteResult:
    files = Files(df.sparkSession)
    plan = plan_write(df, request, files)
    df, erased = _without_erased(df, plan)
    df = _with_partitions(df, plan)
    if not plan.blobs:
        return replace(_checked_write(df, df, plan, files), erased=erased)
    require_workers(df.sparkSession)  # fail before the table is made, not in the first task after it
    new = None
    if plan.target.existing is None:
        _make_table(df, plan, files)
        quoted_name = None if plan.target.is_registered else plan.target.quoted_name
        plan = plan_write(df, request, files)
        if plan.target.existing is not None:
            new = NewTable.of(files, plan.target.path, quoted_name, plan.target.existing.config)
    done: list[WriteResult] = []
    handing = Handing()

    def write_rows(staged: StagedRows) -> str | None:
        rows = staged.frame
        # Staged rows are read from Parquet, which loses the DataFrame's "no NULL elements": describe the columns again.
        columns = _vector_columns(rows, request, plan.target, plan.policy)
        # For few staged rows, checks in one task are cheaper than a shuffle.
        checked = rows.coalesce(1) if staged.bytes <= _ONE_TASK else rows
        done.append(_checked_write(rows, checked, replace(plan, columns=columns), files, handing))
        return done[0].instant

    existing = plan.target.existing
    target = BlobTarget(plan.target.path, plan.blobs, plan.layout.partition_by, existing.config if existing else None)
    undo = partial(new.take_back, df.sparkSession, files) if new is not None else None
    if plan.policy == "fail":
        df = refusing_invalid(df, plan.columns, plan.layout.record_key)  # before its blob is stored
    uploaded = upload_and_write(df, target, write_rows, handing, undo)
    return replace(done[0], blobs=uploaded, erased=erased)


def _without_erased(df: DataFrame, plan: WritePlan) -> tuple[DataFrame, int]:
    """Return the rows without those that the setting for erased keys leaves out, and how many these are."""
    policy = plan.erased
    if policy == OFF or plan.target.existing is None or plan.request.operation == "delete":
        return df, 0
    return without_erased(df, plan.target.path, plan.layout.record_key, policy)


def _with_partitions(df: DataFrame, plan: WritePlan) -> DataFrame:
    """Return the rows with the check of their partition values; what is deleted was written before."""
    if plan.request.operation == "delete":
        return df
    config = plan.target.existing.config if plan.target.existing else None
    names = FolderNames.of(config, plan.request.options, by_name=plan.target.quoted_name is not None)
    return refusing_partitions(df, plan.layout.partition_by, names)


def _checked_write(
    df: DataFrame, checked: DataFrame, plan: WritePlan, files: Files, handing: Handing | None = None
) -> WriteResult:
    """Check the rows and let Hudi write them; `checked` are the same rows, partitioned for the checks."""
    context = df.sparkSession.sparkContext
    with tasks_followed(context, "checking the rows"):
        findings = _inspect(checked, plan)
    if plan.target.existing is None and plan.request.operation == "upsert" and findings.rows >= _MANY_ROWS:
        _LOG.warning(
            "'%s' is a new table: operation='bulk_insert' writes its first %d rows several times faster than 'upsert'",
            plan.request.table, findings.rows,
        )  # fmt: skip
    with tasks_followed(context, "writing the rows"):
        commit = hand_to_hudi(df.sparkSession, files, _rows(df, plan), plan, handing=handing)
    skipped = findings.invalid_rows if plan.policy == "skip" else 0
    if findings.invalid_rows:
        done = "were left out" if skipped else "were written with NULL in their place"
        _LOG.warning(
            "%d of %d rows with an invalid vector %s (%s), the first at %s",
            findings.invalid_rows, findings.rows, done, findings.described, findings.first_invalid,
        )  # fmt: skip
    return WriteResult(
        table=plan.request.table,
        path=plan.target.path,
        operation=plan.request.operation,
        instant=commit.instant if commit else None,
        inserted=commit.inserted if commit else None,
        updated=commit.updated if commit else None,
        deleted=commit.deleted if commit else None,
        invalid=findings.invalid,
        skipped=skipped,
    )


def _make_table(df: DataFrame, plan: WritePlan, files: Files) -> None:
    """Make the table without rows; Hudi would take a folder that holds only blobs for a damaged table."""
    spark = df.sparkSession
    none = no_rows(spark, converted_schema(df.schema, plan.blobs))
    # bulk_insert is the only operation that looks up no keys.
    request = replace(
        plan.request, operation="bulk_insert", sort_by=(), options={**_FOR_NO_ROWS, **plan.request.options}
    )
    hand_to_hudi(spark, files, _rows(none, plan), replace(plan, request=request))


def plan_write(
    df: DataFrame, request: WriteRequest, files: Files, columns_of_table: StructType | None = None
) -> WritePlan:
    """Check the arguments against the DataFrame and the existing table; return the plan without writing anything."""
    spark = df.sparkSession
    all_settings = session_settings(spark)
    require_known_in_session(all_settings)
    session = {key: value for key in SESSION_KEYS if (value := all_settings.get(key))}
    policy = INVALID_VECTORS.read({**session, **request.options})
    erased = ERASED_KEYS.read({**session, **request.options})
    _require_distinct_columns(df)
    target = resolve_target(spark, files, request.table, request.options.get("hoodie.table.name"), columns_of_table)
    existing = target.existing
    for ignored in without_effect({**target.catalog_properties, **(existing.properties if existing else {})}):
        _LOG.warning("the table '%s': %s", request.table, ignored)
    if existing is None and request.operation == "delete":
        raise TableNotFoundError(f"there is no table '{request.table}' to delete from; name one that exists")
    config = existing.config if existing else None
    partition_option = existing.properties.get("hoodie.table.partition.fields") if existing else None
    settings = read_settings(request.options, session, target.catalog_properties)
    layout = agree_on_layout(request, config, partition_option)
    _require_named_columns(df, request, layout)
    deletes = request.operation == "delete"
    if not deletes:
        drops = request.options.get(DROP_COLUMNS, "").lower() == "true"
        _require_table_columns(df, target, settings.nulls_for_missing or drops)
    columns = [] if deletes else _vector_columns(df, request, target, policy)
    blobs = () if deletes else plan_blobs(df, request.table, existing, request.blobs, request.options)
    in_table = existing.vectors if existing else {}
    has_vectors = bool(columns or in_table)
    return WritePlan(request, target, layout, settings, policy, erased, columns, blobs, has_vectors)


def _vector_columns(df: DataFrame, request: WriteRequest, target: Target, policy: str) -> list[VectorColumn]:
    for name in request.vectors:
        if name not in df.columns:
            raise UnknownColumnError.of(name, df.columns, _FRAME)
    schema = target.existing.schema if target.existing else None
    in_table = vector_columns(schema) if schema is not None else {}
    types = {field.name: field.dataType.simpleString() for field in schema.fields} if schema is not None else {}
    asked = {**vector_columns(df.schema), **request.vectors}
    agreed = agree_on_vectors(request.table, asked, in_table, types)
    columns = []
    for field in df.schema.fields:
        if field.name not in agreed:
            continue
        known = schema is not None and field.name in types
        nullable = schema[field.name].nullable if schema is not None and known else field.nullable
        if not nullable and policy == "null":
            raise InvalidArgumentError(
                f"column '{field.name}' takes no NULL, so {INVALID_VECTORS.key} = null cannot be used; "
                "use skip or fail, or make the column nullable"
            )
        columns.append(vector_column(field, agreed[field.name], nullable))
    return columns


def _inspect(df: DataFrame, plan: WritePlan) -> Findings:
    operation = plan.request.operation
    unique_by: tuple[str, ...] | None = None
    if plan.settings.checks_duplicates(operation):
        partition = () if plan.settings.has_global_index else plan.layout.partition_by
        unique_by = tuple(dict.fromkeys((*plan.layout.record_key, *partition)))
    if not plan.columns and unique_by is None:
        return Findings(rows=0)
    findings = inspect_rows(df, plan.columns, plan.layout.record_key, unique_by, plan.policy == "skip")
    if plan.policy == "fail":
        refuse_invalid(findings)
    refuse_duplicates(findings, operation, DUPLICATES)
    return findings


def _rows(df: DataFrame, plan: WritePlan) -> DataFrame:
    """Return the rows in the form in which Hudi writes them."""
    if plan.request.operation == "delete":
        # Hudi needs only these columns to delete, and other columns could differ from the table's.
        wanted = (*plan.layout.record_key, *plan.layout.partition_by, *plan.layout.ordering)
        tops = dict.fromkeys(_top(name) for name in wanted)
        return df.select(*[F.col(quoted(name)) for name in tops if name in df.columns])
    rows = as_arrays(df, plan.columns)
    otherwise = None
    if plan.policy == "skip":
        for column in plan.columns:
            rows = rows.filter(column.invalid_because().isNull())
    elif plan.policy == "fail":
        # The check has passed, so this fails only if the second read returns other rows than the first.
        otherwise = F.raise_error(
            F.lit("a vector is invalid that was valid when it was checked: cache the DataFrame, it changes")
        )
    stored = {column.name: column.as_stored(otherwise) for column in plan.columns}
    return rows.select(*[stored.get(name, F.col(quoted(name))) for name in rows.columns])


def _without_meta_columns(df: DataFrame) -> DataFrame:
    """Return the DataFrame without the meta columns of a Hudi table it was read from; Hudi writes new ones."""
    return df.drop(*WRITTEN_BY_HUDI)


def _batch_frame(df: Any, spark: SparkSession | None) -> DataFrame:
    frame = spark_frame(df, spark)
    if frame.isStreaming:
        raise InvalidArgumentError("df is a streaming DataFrame; write its batches with foreachBatch")
    require_fit(frame.sparkSession)
    return frame


def _require_distinct_columns(df: DataFrame) -> None:
    case_sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    seen: dict[str, str] = {}
    for name in df.columns:
        folded = name if case_sensitive else name.lower()
        if folded in seen:
            raise InvalidArgumentError(f"columns '{seen[folded]}' and '{name}' of the DataFrame are one; rename one")
        seen[folded] = name


def _require_named_columns(df: DataFrame, request: WriteRequest, layout: Layout) -> None:
    ordering = layout.ordering if request.operation != "delete" else request.ordering or ()
    for name in (*layout.record_key, *layout.partition_by, *ordering, *request.sort_by):
        if _top(name) not in df.columns:
            raise UnknownColumnError.of(name, df.columns, _FRAME)


def _require_table_columns(df: DataFrame, target: Target, may_lack: bool) -> None:
    if target.existing is None or may_lack:
        return
    vectors = target.existing.vectors
    for field in target.existing.schema.fields:
        if field.name not in df.columns and field.name not in WRITTEN_BY_HUDI:
            kind = vectors[field.name].descriptor if field.name in vectors else field.dataType.simpleString()
            raise InvalidArgumentError(
                f"column '{field.name}' ({kind}) of '{target.given}' is not in the DataFrame; "
                "add it, or change single columns with SQL UPDATE or MERGE"
            )


def _top(name: str) -> str:
    """Return the top-level column of a nested name such as ``a.b``."""
    return name.partition(".")[0]
