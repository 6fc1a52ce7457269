"""The engines of the matching benchmark, each behind the same two questions: the sum of its pairs, and the work that is timed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.bench import match_joins as joins
from evenflow.bench.workloads import Workload
from evenflow.subscriptions.columns import Int64s, write_lines
from evenflow.subscriptions.matching import Engine, Index

Sum = tuple[int, int]
_JOIN_AT_ONCE = 4_000_000  # rows of events × rules that a data frame library holds at once


class Matcher(ABC):
    """One engine with the rules and the events loaded; it matches the first ``count`` events."""

    name: str
    patience = 1.0
    """How much longer its turns are: what warms up slowly is measured longer."""

    @abstractmethod
    def summed(self, count: int) -> Sum:
        """Count the pairs, and sum (event + 1) × (subscription + 1) over them."""

    @abstractmethod
    def run(self, count: int) -> None:
        """Do what is timed: bring forth every pair, or whatever the name of the engine says."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Free what the engine holds."""


class Pairs(Matcher):
    """The matching engine itself, on one core, with every pair expanded."""

    def __init__(self, workload: Workload, engine: Engine) -> None:
        self.name = f"evenflow pairs ({engine})"
        self.events = workload.events
        ids = pa.array(np.arange(workload.predicates.count, dtype=np.int32))
        self.index = Index.from_columns(ids, workload.predicates, engine=engine)

    def summed(self, count: int) -> Sum:
        """Sum over the chunks; the numbers are the ids."""
        pairs, checksum = 0, 0
        for chunk in self.index.match(self.events.slice(0, count)).chunks(ordered=False):
            event = np.repeat(np.arange(len(chunk.offsets) - 1) + chunk.first + 1, np.diff(chunk.offsets))
            checksum += int(event @ (chunk.numbers.astype(np.int64) + 1))
            pairs += len(chunk.numbers)
        return pairs, checksum

    def run(self, count: int) -> None:
        """Expand the pairs, chunk by chunk."""
        for _ in self.index.match(self.events.slice(0, count)).chunks(ordered=False):
            pass


class Counts(Matcher):
    """The same engine, asked for counts alone: nothing is expanded."""

    def __init__(self, pairs: Pairs) -> None:
        self.name = pairs.name.replace("pairs", "counts")
        self.expanded = pairs

    def summed(self, count: int) -> Sum:
        """Take the checksum from the pairs, whose number must be the sum of the counts."""
        pairs, checksum = self.expanded.summed(count)
        counted = int(self._counts(count).sum())
        return counted, checksum if counted == pairs else -1

    def run(self, count: int) -> None:
        """Count the matches."""
        self._counts(count)

    def _counts(self, count: int) -> Int64s:
        return self.expanded.index.match(self.expanded.events.slice(0, count)).counts()


class SparkJoin(Matcher):
    """A join that a Spark user would write, of events and rules in Spark's memory."""

    patience = 3.0

    def __init__(self, name: str, events: Any, rules: Any, join: Callable[[Any, Any], Any]) -> None:
        self.name, self.events, self.rules, self.join = name, events, rules, join

    def summed(self, count: int) -> Sum:
        """Sum inside Spark."""
        return joins.summed(self.join(joins.first(self.events, count), self.rules))

    def run(self, count: int) -> None:
        """Bring forth every row of the join."""
        joins.drained(self.join(joins.first(self.events, count), self.rules))


class SparkMatch(Matcher):
    """``evenflow.match`` of events in Spark's memory; the subscriptions reached the workers before."""

    patience = 3.0

    def __init__(self, events: Any, rules: Any, output: Any) -> None:
        self.name = f"evenflow on Spark, {output}"
        self.events, self.rules, self.output = events, rules, output

    def summed(self, count: int) -> Sum:
        """Sum the exploded pairs inside Spark."""
        return joins.summed(joins.match(joins.first(self.events, count), self.rules, output="pairs", keep=["event"]))

    def run(self, count: int) -> None:
        """Bring forth every row of the result."""
        events = joins.first(self.events, count)
        joins.drained(joins.match(events, self.rules, output=self.output, keep=["event"]))


class Polars(Matcher):
    """polars: an equi-join where there is one, otherwise every pair, then a filter."""

    name = "polars"

    def __init__(self, workload: Workload) -> None:
        import polars as pl  # noqa: PLC0415 - a peer, not a dependency

        self.pl: Any = pl
        self.rules: Any = pl.from_arrow(workload.rules)
        self.events: Any = pl.from_arrow(workload.events)
        self.by_symbol = "symbol_is" in workload.rules.column_names
        self.most = max(1, _JOIN_AT_ONCE // max(workload.rules.num_rows, 1))

    def summed(self, count: int) -> Sum:
        """Sum over the frames."""
        event, subscription = (self.pl.col(name).cast(self.pl.Int64) + 1 for name in ("event", "subscription"))
        total = [frame.select(self.pl.len(), (event * subscription).sum()).row(0) for frame in self._frames(count)]
        return sum(part[0] for part in total), sum(part[1] for part in total)

    def run(self, count: int) -> None:
        """Bring forth every frame of pairs."""
        for _ in self._frames(count):
            pass

    def _frames(self, count: int) -> Iterator[Any]:
        """Join some events at a time, so that the joined rows fit in memory."""
        for begin in range(0, count, self.most):
            for pairs in self._joined(self.events.slice(begin, min(self.most, count - begin))):
                yield pairs.select("event", "subscription").collect()

    def _joined(self, events: Any) -> list[Any]:
        bounds = [name for name in self.rules.columns if name != "subscription"]
        if not self.by_symbol:
            return [self._filtered(events.lazy().join(self.rules.lazy(), how="cross"), bounds)]
        named = self.rules.lazy().filter(self.pl.col("symbol_is").is_not_null())
        general = self.rules.lazy().filter(self.pl.col("symbol_is").is_null())
        others = [name for name in bounds if name != "symbol_is"]
        return [
            self._filtered(events.lazy().join(named, left_on="symbol", right_on="symbol_is"), others),
            self._filtered(events.lazy().join(general, how="cross"), others),
        ]

    def _filtered(self, joined: Any, bounds: list[str]) -> Any:
        holds = []
        for name in bounds:
            attribute, _, bound = name.rpartition("_")
            column = self.pl.col(name)
            holds.append(column.is_null() | joins.BOUNDS[bound](self.pl.col(attribute), column))
        return joined.filter(*holds)


class DuckDb(Matcher):
    """duckdb: the same join in SQL."""

    name = "duckdb"

    def __init__(self, workload: Workload) -> None:
        import duckdb  # noqa: PLC0415 - a peer, not a dependency

        self.connection = duckdb.connect()
        self.connection.execute("SET threads TO 1")
        self.connection.execute("SET enable_progress_bar = false")  # standard output belongs to the result
        for name, table in (("rules", workload.rules), ("events", workload.events)):
            self.connection.register("given", table)
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")  # noqa: S608 - our own names
        bounds = [name for name in workload.rules.column_names if name != "subscription"]
        signs = {"is": "=", "above": ">", "below": "<", "from": ">=", "to": "<="}
        tests = {}
        for name in bounds:
            attribute, _, bound = name.rpartition("_")
            tests[name] = f'(r.{name} IS NULL OR e."{attribute}" {signs[bound]} r.{name})'
        head = "SELECT e.event, r.subscription FROM (SELECT * FROM events WHERE event < ?) e JOIN rules r ON "
        if "symbol_is" in bounds:
            others = " AND ".join(tests[name] for name in bounds if name != "symbol_is")
            self.pairs = f"{head} e.symbol = r.symbol_is AND {others} UNION ALL {head} r.symbol_is IS NULL AND {others}"
        else:
            self.pairs = head + " AND ".join(tests.values())

    def summed(self, count: int) -> Sum:
        """Sum inside duckdb."""
        number = "sum((CAST(event AS BIGINT) + 1) * (CAST(subscription AS BIGINT) + 1))"
        query = f"SELECT count(*), coalesce({number}, 0) FROM ({self.pairs})"  # noqa: S608 - our own names
        pairs, checksum = self.connection.execute(query, [count] * self.pairs.count("?")).fetchall()[0]
        return int(pairs), int(checksum)

    def run(self, count: int) -> None:
        """Bring forth every pair as Arrow."""
        self.connection.sql(self.pairs, params=[count] * self.pairs.count("?")).to_arrow_table()

    def close(self) -> None:
        """Close the database."""
        self.connection.close()


def rules_text(workload: Workload) -> pa.Table:
    """Write the subscriptions as ``evenflow.match`` takes them: an id and a text."""
    texts = write_lines(workload.predicates)
    return pa.table({"id": np.arange(len(texts), dtype=np.int32), "subscription": texts})
