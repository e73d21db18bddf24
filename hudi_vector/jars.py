"""The choice of the Hudi bundle for a Spark version.

The first of these that exists is taken: the argument, the environment variable ``HUDI_VECTOR_BUNDLE``, a bundle put
into ``jars/`` by hand, the Maven coordinate of ``bundles.toml``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudi_vector.errors import InvalidArgumentError, SessionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Bundle", "bundle_for", "known_bundles"]

ENVIRONMENT_VARIABLE = "HUDI_VECTOR_BUNDLE"
_PACKAGE = Path(__file__).resolve().parent
_JAR_DIRECTORIES = (_PACKAGE.parent / "jars",)


@dataclass(frozen=True)
class Bundle:
    """A Hudi bundle: a Maven coordinate that Spark resolves, or an existing jar file."""

    location: str
    is_file: bool
    proved: bool = False


def known_bundles() -> dict[str, Bundle]:
    """Return the bundles of ``bundles.toml``, as Maven coordinates, by Spark's major.minor version.

    Example:
        >>> known_bundles()["3.5"].location
        'org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0'
    """
    with open(_PACKAGE / "bundles.toml", "rb") as file:
        entries: Mapping[str, Mapping[str, Any]] = tomllib.load(file)["spark"]
    return {
        spark: Bundle(
            f"org.apache.hudi:hudi-spark{spark}-bundle_{entry['scala']}:{entry['hudi']}",
            is_file=False,
            proved=bool(entry["proved"]),
        )
        for spark, entry in entries.items()
    }


def bundle_for(
    spark_version: str,
    requested: str | None = None,
    environment: Mapping[str, str] | None = None,
    directories: tuple[Path, ...] = _JAR_DIRECTORIES,
) -> Bundle:
    """Return the bundle to load into a Spark version, given as ``pyspark.__version__`` (``"3.5.9"``).

    `requested` is a jar file or a Maven coordinate ``group:artifact:version``, or None. ``HUDI_VECTOR_BUNDLE`` is
    looked up in `environment`, by default that of the process, and jar files in `directories`. Raises
    InvalidArgumentError if the requested bundle is neither an existing jar file nor a Maven coordinate, and
    SessionError if no bundle is known for this Spark.

    Example:
        >>> bundle_for("3.5.9", environment={}, directories=()).location
        'org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0'
    """
    environment = os.environ if environment is None else environment
    asked = requested or environment.get(ENVIRONMENT_VARIABLE)
    if asked:
        return _named(asked)
    minor = ".".join(spark_version.split(".")[:2])
    for directory in directories:
        jars = sorted(directory.glob(f"hudi-spark{minor}-bundle_*.jar"))
        if jars:
            return Bundle(str(jars[-1]), is_file=True)
    bundles = known_bundles()
    if minor not in bundles:
        raise SessionError(
            f"no Hudi bundle is known for Spark {spark_version}; known are {', '.join(sorted(bundles))}. "
            f"Name a jar file or a Maven coordinate in {ENVIRONMENT_VARIABLE}, or put the jar into jars/"
        )
    return bundles[minor]


def _named(asked: str) -> Bundle:
    if asked.endswith(".jar"):
        if "://" not in asked and not Path(asked).is_file():
            raise InvalidArgumentError(f"the Hudi bundle '{asked}' does not exist; give a jar file that is there")
        return Bundle(asked, is_file=True)
    if asked.count(":") == 2 and all(asked.split(":")):
        return Bundle(asked, is_file=False)
    raise InvalidArgumentError(
        f"'{asked}' names no Hudi bundle; give the path of a jar file or a Maven coordinate group:artifact:version"
    )
