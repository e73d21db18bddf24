"""The settings that a SparkSession would find in files, read without a session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

from hudi_vector.options import Settings
from hudi_vector.storage import StorageOptions
from hudi_vector.table.config import parse_properties

__all__ = ["settings_here"]

_HADOOP_FILES = ("core-site.xml", "hdfs-site.xml")
_PREFIXES = {"spark.hadoop.": "", "spark.hoodie.": "hoodie."}


def settings_here(given: Mapping[str, str]) -> Settings | None:
    """Return the settings of a command and of Spark's and Hadoop's files; None if only Java can read such a file.

    `given` has keys as for ``--conf``; it takes precedence over ``spark-defaults.conf`` in ``$SPARK_CONF_DIR`` or
    ``$SPARK_HOME/conf``, and that over ``core-site.xml`` and ``hdfs-site.xml`` there and in ``$HADOOP_CONF_DIR``. Keys
    lose the prefix ``spark.`` of ``spark.hoodie.`` and ``spark.hadoop.``. Raise InvalidOptionError for a misspelt key.
    """
    spark, hadoop = _spark_folder(), os.environ.get("HADOOP_CONF_DIR")
    found: dict[str, str] = {}
    try:
        # Spark's folder is first on the class path, so its files win.
        for folder in (Path(place) for place in (hadoop, spark) if place):
            for name in _HADOOP_FILES:
                found |= _hadoop_settings(folder / name)
        defaults = _text(Path(spark, "spark-defaults.conf")) if spark else ""
    except (ValueError, ET.ParseError, OSError):
        return None
    # Spark drops keys of this file that do not begin with its name.
    of_spark = {key: value.strip() for key, value in parse_properties(defaults).items() if key.startswith("spark.")}
    found |= {_short(key): value for key, value in of_spark.items()}
    found |= {_short(key): value for key, value in given.items()}
    # Hadoop replaces ${…} in values by other settings, and by variables of the system.
    if any("${" in value for _, value in StorageOptions.of(found).values):
        return None
    return Settings(found)


def _spark_folder() -> str | None:
    """Return the folder of Spark's settings, or None if there is no Spark."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        package = find_spec("pyspark")
        home = os.path.dirname(package.origin) if package is not None and package.origin else None
    return os.environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else None)


def _hadoop_settings(path: Path) -> dict[str, str]:
    """Return the settings of a file of Hadoop, {} if it does not exist; raise ValueError for other elements in it."""
    text = _text(path)
    if not text:
        return {}
    found: dict[str, str] = {}
    for setting in ET.fromstring(text):  # noqa: S314 - the operator of this process wrote the file
        name, value = setting.findtext("name"), setting.findtext("value")
        if setting.tag != "property" or name is None:
            raise ValueError(f"'{path}' has a <{setting.tag}> without a name")
        if value is not None:
            found[name.strip()] = value.strip()
    return found


def _text(path: Path) -> str:
    """Return the text of a file, "" if it does not exist."""
    try:
        return path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _short(key: str) -> str:
    for prefix, short in _PREFIXES.items():
        if key.startswith(prefix):
            return short + key.removeprefix(prefix)
    return key
