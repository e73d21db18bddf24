"""Bytes of a range of a local file, as a column that the JVM computes itself.

Spark has no SQL function for it. Its own class for ranges of shuffle files is made and asked for each row by Catalyst's
expressions for Java objects, so that no class of this package has to be on the JVM's class path.
"""

from __future__ import annotations

from pyspark.sql import Column

from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import Handles, active_handles

__all__ = ["range_of_file"]

_EXPRESSIONS, _NETWORK = "org.apache.spark.sql.catalyst.expressions", "org.apache.spark.network"
# A file that is mapped into memory keeps its address space until the garbage collector runs.
_MAP_NOTHING = {"spark.storage.memoryMapThreshold": f"{2**31 - 1}b"}


def range_of_file(path: Column, offset: Column, length: Column) -> Column:
    """Return `length` bytes from byte `offset` of a local file; NULL if they cannot all be read.

    The file is opened for each row. `length` is at least 0 and below 2³¹ - 1.
    """
    handles = active_handles()
    configuration = handles.made("expression", "configuration of reads", lambda: _configuration(handles))
    text = _call(handles, path._jc.expr(), "toString", _type(handles, "java.lang.String"))
    file = _new(handles, "java.io.File", text)
    numbers = (offset.cast("bigint")._jc.expr(), length.cast("bigint")._jc.expr())
    segment = _new(handles, f"{_NETWORK}.buffer.FileSegmentManagedBuffer", configuration, file, *numbers)
    buffer = _call(handles, segment, "nioByteBuffer", _type(handles, "java.nio.ByteBuffer"))
    value = _call(handles, buffer, "array", handles.module("org.apache.spark.sql.types.BinaryType"))
    return Column(handles.named("org.apache.spark.sql.Column")(handles.named(f"{_EXPRESSIONS}.TryEval")(value)))


def _configuration(handles: Handles) -> JavaObject:
    """Return the expression of the configuration of all reads."""
    settings = handles.named("java.util.HashMap")()
    for key, value in _MAP_NOTHING.items():
        settings.put(key, value)
    provider = _new(handles, f"{_NETWORK}.util.MapConfigProvider", _literal(handles, settings, "java.util.HashMap"))
    name = _literal(handles, "hudi-vector", "java.lang.String")
    return _new(handles, f"{_NETWORK}.util.TransportConf", name, provider)


def _new(handles: Handles, name: str, *arguments: JavaObject) -> JavaObject:
    """Return the expression of a new object of a class; its constructor is not called if an argument is NULL."""
    kind, none = _type(handles, name), handles.none
    make = handles.named(f"{_EXPRESSIONS}.objects.NewInstance")
    return make(kind.cls(), handles.sequence(list(arguments)), handles.sequence([]), True, kind, none)


def _call(handles: Handles, target: JavaObject, method: str, returned: JavaObject) -> JavaObject:
    """Return the expression of a call without arguments."""
    call = handles.named(f"{_EXPRESSIONS}.objects.Invoke")
    return call(target, method, returned, handles.sequence([]), handles.sequence([]), True, True, True)


def _literal(handles: Handles, value: JavaObject, name: str) -> JavaObject:
    return handles.named(f"{_EXPRESSIONS}.Literal")(value, _type(handles, name))


def _type(handles: Handles, name: str) -> JavaObject:
    """Return Catalyst's type of the objects of a Java class."""

    def make() -> JavaObject:
        loader = handles.named("java.lang.Thread").currentThread().getContextClassLoader()
        return handles.named("org.apache.spark.sql.types.ObjectType")(
            handles.named("java.lang.Class").forName(name, True, loader)
        )

    return handles.made("type of objects", name, make)
