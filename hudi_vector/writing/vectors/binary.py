"""Conversion of vectors given as bytes (consecutive little-endian elements) to arrays.

Spark has no expression that reads bytes as floats, so these columns go through Arrow; elements are not copied one by
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, ByteType, DataType, DoubleType, FloatType, StructField, StructType

from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame

    from hudi_vector.schema import VectorType

__all__ = ["bytes_to_lists", "decode_binary"]

_SPARK_ELEMENT: dict[str, DataType] = {"float": FloatType(), "double": DoubleType(), "int8": ByteType()}


def decode_binary(frame: DataFrame, columns: Mapping[str, VectorType]) -> DataFrame:
    """Return the DataFrame with its binary columns as arrays; bytes of the wrong width become an empty array."""

    def decoded(field: StructField) -> StructField:
        vector = columns.get(field.name)
        if vector is None:
            return field
        kind = ArrayType(_SPARK_ELEMENT[vector.element], containsNull=False)
        return StructField(field.name, kind, field.nullable, field.metadata)

    schema = StructType([decoded(field) for field in frame.schema.fields])
    return map_in_arrow(frame, _decoder(dict(columns)), schema)


def bytes_to_lists(values: pa.Array, vector: VectorType) -> pa.ListArray:
    r"""Return binary values as lists of elements; NULL stays NULL, bytes of the wrong width become an empty list.

    Example:
        >>> from hudi_vector.schema import VectorType
        >>> bytes_to_lists(pa.array([b"\x01\x02", None, b"\x01"]), VectorType(2, "int8")).to_pylist()
        [[1, 2], None, []]
    """
    fits = pc.fill_null(pc.equal(pc.binary_length(values), vector.width), False)
    # Concatenation makes new buffers, without the offset that a slice would have.
    whole = pa.concat_arrays([values.filter(fits).cast(pa.large_binary())])
    data = whole.buffers()[2]
    count = len(whole) * vector.dimension
    elements = np.frombuffer(data, vector.dtype, count) if count else np.empty(0, vector.dtype)
    lengths = np.where(fits.to_numpy(zero_copy_only=False), vector.dimension, 0)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(elements, vector.arrow_element), mask=pc.is_null(values)
    )


def _decoder(columns: dict[str, VectorType]) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def decode(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            arrays = [
                bytes_to_lists(array, columns[name]) if name in columns else array
                for name, array in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    return decode
