"""Replays of receipts, which search a table again as of the instant that a receipt names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import TableNotFoundError
from hudi_vector.options import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.query.receipts.receipt import Receipt
    from hudi_vector.query.replays.again import Replayed

__all__ = ["replay"]


@known_arguments()
def replay(
    spark: SparkSession | Settings | None,
    receipt: Receipt | Mapping[str, Any] | str | os.PathLike[str],
    vector: Any = None,
    *,
    table: str | os.PathLike[str] | None = None,
) -> Replayed:
    """Run the search of a receipt again, as of the same instant, and compare the answers bit by bit.

    An exact answer is the same as long as the table has the files of that instant, however it was written, compacted or
    clustered since. An approximate answer is the same as long as its generation of the index is there too.

    Args:
        spark: A session, `Settings`, or None for a table on this machine. Spark searches nothing but what executors
            searched for the receipt; else a session gives the settings of storage, and finds `table` by its name.
        receipt: What ``report.receipt()`` returned, its JSON as text or values, or the path of a file that holds it.
        vector: The query vector, or an array of shape (m, d) of a batch, if the receipt has its hash alone.
        table: The table's path now, if it has moved, or if its path held credentials, which a receipt does not.

    Returns:
        The outcome: `same`, the `differences`, the `hits` found now, and `why` the answer may differ if it may.

    Raises:
        InvalidArgumentError: The receipt is none, was changed or has an unknown version; the vector is missing or is
            not the one that was searched for.
        InstantNotAvailableError: The files of that instant are gone. The message names one, and the clean that took it.
        TableNotFoundError: There is no Hudi table at the path.

    Example:
        >>> hv.search(spark, "products", "embedding", q, k=5).count()
        5
        >>> receipt = hv.last_reports()[0].receipt()
        >>> hv.replay(spark, receipt).same, hv.replay(None, receipt.to_json()).same
        (True, True)
    """
    from hudi_vector.query.receipts.receipt import as_receipt
    from hudi_vector.query.replays.again import searched_again
    from hudi_vector.table.model import Source
    from hudi_vector.table_services.located import locate_anyhow

    known = as_receipt(receipt)
    vectors = known.content.queries.array(vector)
    place = known.content.table if table is None else table
    try:
        uri, spelled, options = locate_anyhow(spark, place)
    except TableNotFoundError as problem:
        if table is not None:
            raise
        moved = "if the table has moved, give its path now as table=… or --table"
        raise TableNotFoundError(f"{problem}; {moved}") from None
    source = Source(uri, os.fspath(place), options, spelled)
    if spark is None or isinstance(spark, Settings):
        conf = {} if spark is None else {key: text for key, text in spark.values.items() if key.startswith("hoodie.")}
        return searched_again(known, source, vectors, conf)
    from hudi_vector.spark.search.search import settings_of

    conf = dict(settings_of(spark))
    if known.content.access.execution == "local":
        return searched_again(known, source, vectors, conf)
    from functools import partial

    from hudi_vector.query.distributed import run_distributed

    return searched_again(known, source, vectors, conf, partial(run_distributed, spark.sparkContext))
