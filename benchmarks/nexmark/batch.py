"""The same questions as Spark SQL over tables of the same events: what the programs must answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from benchmarks.nexmark.events import Auction, Bid, Event, Person

_CLOSED = """
    WITH closed AS (
        SELECT a.id, a.seller, a.category, a.expires, max(b.price) AS price
        FROM auction a JOIN bid b ON b.auction = a.id AND b.time BETWEEN a.time AND a.expires
        GROUP BY a.id, a.seller, a.category, a.expires
    )
"""

SQL = {
    "q0": "SELECT auction, bidder, price, time, extra FROM bid",
    "q1": "SELECT auction, bidder, price * 908 DIV 1000, time, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id
        FROM person p JOIN auction a ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    "q4": _CLOSED
    + """
        SELECT category, unix_millis(window.end), sum(price) DIV count(*)
        FROM closed
        GROUP BY category, window(timestamp_millis(expires), '10 seconds', '5 seconds')
    """,
    "q5": """
        WITH counts AS (
            SELECT auction, unix_millis(window.end) AS until, count(*) AS bids
            FROM bid
            GROUP BY auction, window(timestamp_millis(time), '10 seconds', '2 seconds')
        ), compared AS (
            SELECT *, max(bids) OVER (PARTITION BY until) AS most FROM counts
        )
        SELECT auction, until, bids FROM compared WHERE bids = most
    """,
    "q6": _CLOSED
    + """
        SELECT seller, sum(price) OVER last_ten DIV count(*) OVER last_ten
        FROM closed
        WINDOW last_ten AS (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
    """,
    "q7": """
        WITH compared AS (
            SELECT *, max(price) OVER (PARTITION BY time DIV 10000) AS highest FROM bid
        )
        SELECT auction, bidder, price, time, extra FROM compared WHERE price = highest
    """,
    "q8": """
        SELECT p.id, p.name, a.reserve
        FROM person p JOIN auction a ON a.seller = p.id AND a.time DIV 10000 = p.time DIV 10000
    """,
}


def make_tables(spark: Any, generator: Callable[[int], Event], count: int) -> None:
    """Temporary views of the first `count` events: `person`, `auction` and `bid`."""
    events = [generator(number) for number in range(count)]
    for kind in (Person, Auction, Bid):
        # By way of Arrow, which needs no Python worker; from a list of rows Spark starts one, and keeps it.
        rows = pa.Table.from_pylist([asdict(event) for event in events if type(event) is kind])
        spark.createDataFrame(rows).createOrReplaceTempView(kind.__name__.lower())


def answers(spark: Any, query: str) -> list[tuple[Any, ...]]:
    """What Spark SQL says."""
    return [tuple(row) for row in spark.sql(SQL[query]).collect()]
