"""Blob references as data files hold them, found by the shape of a struct, whatever its column is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.struct import INLINE, REFERENCE_TYPE
from hudi_vector.errors import InvalidBlobError

__all__ = ["FOLDED", "REFERENCES", "REFERENCE_FIELDS", "add_references", "distinct", "folded", "references_in"]

REFERENCES = pa.schema(
    [
        ("column", pa.string()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("managed", pa.bool_()),
    ]
)
"""The distinct references of a file: the column's dotted path, and the reference's fields as in the rows."""

FOLDED = pa.schema([("path", pa.string()), ("managed", pa.bool_()), ("references", pa.int64())])
"""References folded by path: the number of a file's distinct references that have this path."""

REFERENCE_FIELDS = tuple(field.name for field in REFERENCE_TYPE)


def references_in(table: pa.Table) -> pa.Table:
    """Return the distinct references in some rows, as a table of `REFERENCES`, in no order.

    `table` must have at least the types and references of the blobs, which may lie in structs, lists and maps. Every
    path counts, whatever the blob's type. Raise InvalidBlobError if a blob that is not INLINE has no path, since it is
    then unknown what it refers to.

    Example:
        >>> from hudi_vector.blobs.struct import blob_array
        >>> rows = pa.table({"img": blob_array(["OUT_OF_LINE"], [None], ["/x"], [0], [9], [True])})
        >>> references_in(rows).to_pylist()
        [{'column': 'img', 'path': '/x', 'offset': 0, 'length': 9, 'managed': True}]
    """
    found = []
    for name in dict.fromkeys(table.column_names):
        for chunk in table.column(name).chunks:
            found += [_of(column, array, kind) for column, array, kind in _structs(name, chunk, None)]
    return distinct(found)


def distinct(parts: Iterable[pa.Table], schema: pa.Schema = REFERENCES) -> pa.Table:
    """Return the distinct rows of some tables of one schema."""
    whole = pa.concat_tables([schema.empty_table(), *parts])
    return whole.group_by(schema.names, use_threads=False).aggregate([])


def folded(found: pa.Table) -> pa.Table:
    """Return a file's references folded by path, as a table of `FOLDED`.

    A path that is managed in some rows and not in others has two rows.

    Example:
        >>> rows = pa.table([["img"] * 2, ["/x"] * 2, [0, 9], [9, 5], [True] * 2], schema=REFERENCES)
        >>> folded(rows).to_pylist()
        [{'path': '/x', 'managed': True, 'references': 2}]
    """
    made = found.group_by(["path", "managed"], use_threads=False).aggregate([([], "count_all")])
    return made.rename_columns(FOLDED.names).cast(FOLDED)


def add_references(parts: list[pa.Table], found: pa.Table, held: int = 1 << 20) -> None:
    """Append a table of references to `parts`, in place, and make them one distinct table if they have grown.

    They are merged when they have more than `held` rows and more than twice the rows of the first part.
    """
    parts.append(found)
    if len(parts) > 1 and sum(part.num_rows for part in parts) > max(held, 2 * parts[0].num_rows):
        parts[:] = [distinct(parts, found.schema)]


def _structs(
    column: str, array: pa.Array, kind: pa.Array | None
) -> Iterator[tuple[str, pa.StructArray, pa.Array | None]]:
    """Yield the reference structs within an array, with their column and the types of the blobs around them."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_struct(array.type):
        names = [field.name for field in array.type]
        if set(REFERENCE_FIELDS) <= set(names):
            yield column, array, kind
            return
        # `flatten` makes children NULL where the struct is NULL.
        children = array.flatten()
        kinds = children[names.index("type")] if "type" in names else None
        for name, child in zip(names, children, strict=True):
            yield from _structs(f"{column}.{name}", child, kinds if name == "reference" else None)
    elif pa.types.is_map(array.type):
        yield from _structs(f"{column}.value", array.items, None)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        yield from _structs(column, array.flatten(), None)


def _of(column: str, array: pa.StructArray, kind: pa.Array | None) -> pa.Table:
    fields = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
    path = fields["external_path"].cast(pa.string())
    path.validate(full=True)  # a damaged file may hold text that is not UTF-8
    if kind is not None:
        # A blob's type is a string in some files and bytes of an enum in others.
        outside = pc.and_(pc.is_valid(kind), pc.not_equal(kind.cast(pa.string()), INLINE))
        lost = pc.sum(pc.and_(pc.fill_null(outside, False), pc.is_null(path))).as_py() or 0
        if lost:
            raise InvalidBlobError(
                f"{lost} of its rows are OUT_OF_LINE in column '{column.removesuffix('.reference')}' and name no path"
            )
    rows = pa.table(
        [
            pa.repeat(pa.scalar(column.removesuffix(".reference")), len(array)),
            path,
            fields["offset"].cast(pa.int64()),
            fields["length"].cast(pa.int64()),
            fields["managed"].cast(pa.bool_()),
        ],
        schema=REFERENCES,
    )
    return rows.filter(pc.is_valid(path))
