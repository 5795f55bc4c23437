"""Spark's own connectors that do not come with pyspark: their jars are fetched when our session starts.

The coordinate is always that of the pyspark that runs: a connector of another release may load and still fail later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from millrace.common.errors import ConfigurationError

_PACKAGES = "spark.jars.packages"
_OWN_JAR = re.compile(r"spark-sql_(?P<scala>\d+\.\d+)-.*\.jar")

# Where a user may have named a connector already.
_PLACES = ("spark.jars", _PACKAGES, "spark.driver.extraClassPath")

# An artifact of Spark's project and a class in it.
Connector = tuple[str, str]


def coordinate(artifact: str) -> str:
    """The artifact that belongs to the installed pyspark.

    >>> coordinate("spark-sql-kafka-0-10").startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:")
    True
    """
    jars = Path(pyspark.__file__).parent / "jars"
    found = (match for jar in jars.glob("spark-sql_*.jar") if (match := _OWN_JAR.fullmatch(jar.name)))
    scala = next(match["scala"] for match in found)
    return f"org.apache.spark:{artifact}_{scala}:{pyspark.__version__}"


def with_connectors(options: Mapping[str, str], connectors: Iterable[Connector]) -> dict[str, str]:
    """The options of a session, with the coordinates of the connectors that they do not name yet."""
    named = " ".join([*(options.get(place, "") for place in _PLACES), os.environ.get("PYSPARK_SUBMIT_ARGS", "")])
    missing = [coordinate(artifact) for artifact, _ in sorted(set(connectors)) if artifact not in named]
    if not missing:
        return dict(options)
    return {**options, _PACKAGES: ",".join(filter(None, [options.get(_PACKAGES), *missing]))}


def not_fetched(connectors: Iterable[Connector], said: str) -> ConfigurationError:
    """Why our session did not start with connectors: offline, or a repository that does not have them."""
    wanted = ", ".join(coordinate(artifact) for artifact, _ in sorted(set(connectors)))
    causes = [line.strip() for line in said.splitlines() if re.search(r"not found|unresolved|Exception", line)]
    return ConfigurationError(
        f"Spark's connector {wanted} could not be fetched: {causes[-1] if causes else said.strip()[-300:]}",
        action="Let this machine reach Maven Central once; or name a mirror in spark.jars.ivySettings; or put the "
        "jar and the jars that it needs somewhere and name them, with commas between, in spark.jars.",
    )


def require_connectors(spark: SparkSession, connectors: Iterable[Connector]) -> None:
    """See that a session that runs already has the connectors."""
    for artifact, provider in sorted(set(connectors)):
        if not _has_class(spark, provider):
            raise ConfigurationError(
                f"The Spark session runs already, without the connector {coordinate(artifact)}.",
                action=f"Start it with {_PACKAGES} set to {coordinate(artifact)}; for Millrace's own session, set "
                "that in the configuration of the first environment of the process.",
            )


def _has_class(spark: SparkSession, name: str) -> bool:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError:
        return False
    return True
