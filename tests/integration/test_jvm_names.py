"""What is asked of the JVM by name means one thing in every session, whatever order the JVM lists methods in."""

from __future__ import annotations

import random
import re
from functools import reduce

from support.jvm_names import members

from hudi_vector.writing.rewriting.spark_hash import hash_int


def test_no_name_is_that_of_a_static_and_of_another_method(spark):
    jvm = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    described: dict[str, str] = {}

    def is_shared(name: str, member: str) -> bool:
        if name not in described:
            java = reduce(getattr, name.split("."), jvm)
            described[name] = ",".join(each.toString() for each in loader.loadClass(java._fqn).getMethods())
        found = re.findall(rf"([^,()]*)\.{re.escape(member)}\(", described[name])
        return len({" static " in each for each in found}) > 1

    assert is_shared("org.apache.spark.unsafe.hash.Murmur3_x86_32", "hashInt"), "it is found where it is"
    asked = {key: place for key, place in members().items() if key[1] != "MODULE$"}
    assert len(asked) > 30
    assert {key: place for key, place in asked.items() if is_shared(*key)} == {}


def test_hashes_are_those_of_spark(spark):
    draw = random.Random(1)
    edges = [0, 1, -1, 2**31 - 1, -(2**31), *(sign * 2**bit for bit in range(31) for sign in (1, -1))]
    values = edges + [draw.randrange(-(2**31), 2**31) for _ in range(3000)]
    frame = spark.createDataFrame([(value,) for value in values], "value INT")
    found = frame.selectExpr("value", "hash(value)", "hash(value, 1)").collect()
    assert len(found) == len(values)
    assert [row[1] for row in found] == [hash_int(row[0]) for row in found]
    # A row is hashed column by column, each with the hash before it as its seed.
    assert [row[2] for row in found] == [hash_int(1, hash_int(row[0])) for row in found]
