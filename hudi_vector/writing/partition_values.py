"""The check that no partition value leads Hudi to write a row where no reader of the table looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import StringType

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.nested_fields import field_at, field_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hudi_vector.table.config import TableConfig

__all__ = ["FolderNames", "refusing_partitions"]

_HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
_URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
_METADATA = "hoodie.metadata.enable"
_ELSEWHERE = r"(^|/)\.\.?(/|$)|^\.hoodie(/|$)"
_EMPTY = r"^/|//|/$"


@dataclass(frozen=True)
class FolderNames:
    """The names of folders that a write makes of partition values.

    Attributes:
        hive_style: Whether a folder is called ``name=value``.
        url_encode: Whether slashes in values are encoded, so that a value is one folder.
        metadata: Whether the write keeps Hudi's metadata table, which knows no folders without a name.
    """

    hive_style: bool
    url_encode: bool
    metadata: bool

    @classmethod
    def of(cls, config: TableConfig | None, options: Mapping[str, str], by_name: bool) -> FolderNames:
        """Return those of the existing table, or those of a new one, which SQL makes if it has a name (`by_name`)."""

        def holds(key: str, otherwise: bool) -> bool:
            return options.get(key, str(otherwise)).strip().lower() == "true"

        metadata = holds(_METADATA, True)
        if config is None:
            return cls(holds(_HIVE_STYLE, by_name), holds(_URL_ENCODE, False), metadata)
        return cls(config.hive_style_partitioning, config.url_encode_partitioning, metadata)


def refusing_partitions(frame: DataFrame, fields: Sequence[str], names: FolderNames) -> DataFrame:
    """Return the DataFrame with a check: a task fails at its first row whose partition path leads elsewhere.

    Hudi takes text as the path of a folder. With ``..`` it writes outside of the table, with ``.hoodie`` among its own
    files, and with ``.`` or, if it keeps its metadata table, an empty part under a name that its readers do not look
    for. The error is an InvalidArgumentError that names the column and the value.
    """
    refused = f"{_ELSEWHERE}|{_EMPTY}" if names.metadata else _ELSEWHERE
    checks: list[Column] = []
    for place, name in enumerate(fields):
        field = field_at(frame.schema, name)
        if field is None or not isinstance(field.dataType, StringType):
            continue
        column = F.col(quoted(*field_path(frame.schema, name)))
        folder = F.replace(column, F.lit("/"), F.lit("%2F")) if names.url_encode else column
        if names.hive_style or place:  # Hudi's own folder is called so at the beginning alone
            folder = F.concat(F.lit(f"{name}=" if names.hive_style else "-/"), folder)
        said = F.concat(
            F.lit(f"{InvalidArgumentError.__module__}.{InvalidArgumentError.__name__}: nothing was written: a row's "),
            F.lit(f"partition column '{name}' holds '"),
            column,
            F.lit("', which Hudi takes as a path that leads to none of the table's partitions; store another value, "),
            F.lit("in which no part between slashes is '.' or '..', or empty, and which does not begin with '.hoodie'"),
        )
        is_odd = (F.length(column) > 0) & folder.rlike(refused)  # for NULL and '' Hudi has a name
        checks.append(F.when(is_odd, F.raise_error(said).isNull()).otherwise(True))
    return frame.where(reduce(and_, checks)) if checks else frame
