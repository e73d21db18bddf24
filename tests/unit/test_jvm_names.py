"""What is asked of the JVM by name means one thing in every session.

py4j looks a method of a class up by its name alone, and takes the first that the JVM lists, in an order that differs
from session to session: a name that a static method shares with one that is not static is found in some sessions only.
Only the JVM knows its methods: `tests/integration/test_jvm_names.py` asks it. Here the names are seen to be found.
"""

import re
from pathlib import Path

from support.jvm_names import members

import hudi_vector
from hudi_vector.writing.rewriting.spark_hash import hash_int


def test_names_are_found_whatever_they_go_through() -> None:
    found = members()
    for known in (
        ("org.apache.spark.sql.SparkSession", "getActiveSession"),  # through a variable
        ("org.apache.hudi.common.util.Option", "empty"),  # through a constant
        ("java.lang.Thread", "currentThread"),  # through a text
        ("org.apache.spark.sql.Dataset", "ofRows"),  # through two texts
        ("org.apache.spark.sql.api.python.PythonSQLUtils", "readArrowStreamFromFile"),  # a property of another module
    ):
        assert known in found, sorted(found)


def test_no_class_is_named_by_a_chain_of_dots() -> None:
    """Each dot is a request, for which Java looks into some 300 jars for a class of the package's name."""
    for file in Path(hudi_vector.__file__).parent.rglob("*.py"):
        assert re.findall(r"jvm\.(?:org|java|scala|com)\b", file.read_text("utf-8")) == [], file


def test_hashes_that_spark_gives() -> None:
    assert [hash_int(value) for value in (0, 1, -1)] == [933211791, -559580957, -1604776387]
