"""Brokers on a Spark stream: each edge broker is a lane (a partition), and subscribers move between two batches.

A publication goes to the lanes whose covering set matches it; each lane matches it with its own index and measures the
cost. After a batch the brokers' actors compare loads and agree on moves, which take effect in the next batch.
The lane of each subscriber is written to a file before a batch runs, so a repeated batch writes the same output.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.head import HeadActor
from evenflow.brokers.load import RATIOS, Load
from evenflow.brokers.mailbox import BrokerMailbox
from evenflow.brokers.session_trace import Estimates, SessionTrace
from evenflow.brokers.settings import EVEN, BrokerSettings
from evenflow.errors import BadInput
from evenflow.spark.brokers.meter import SETTLE_BATCHES, LaneMeter
from evenflow.spark.brokers.stage import COUNT, DELIVERY, MEASURES, SAMPLE, Lane, Route, matched_schema, routed_schema
from evenflow.spark.brokers.subscribers import SubscriptionSource
from evenflow.spark.kit.pins import pinned
from evenflow.spark.matching.event_reading import EventReader
from evenflow.spark.matching.subscription_log import line_of, read_line
from evenflow.subscriptions.language import parse_subscription
from evenflow.subscriptions.matching import Engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

LOG = "subscribers"
RESET_SHARE = 0.05  # a lane is measured from the start if more than this share of its subscribers joined or left


def scaled(settings: BrokerSettings, scale: float) -> BrokerSettings:
    """Return settings with every interval multiplied by ``scale``; live streams use shorter ones than the thesis.

    The normalization of delays is scaled too, because publications arrive faster by the same factor.

    Examples
    --------
    >>> scaled(BrokerSettings(), 0.1).local_detect_s
    (2.0, 4.0)
    """
    changed: dict[str, Any] = {}
    for name in BrokerSettings.__dataclass_fields__:
        value = getattr(settings, name)
        if name.endswith("_s"):
            changed[name] = tuple(scale * v for v in value) if isinstance(value, tuple) else scale * value
    return replace(settings, **changed)


def brokers(
    publications: DataFrame,
    subscriptions: DataFrame | str | Path,
    brokers: int = 8,
    clusters: int = 2,
    **more: Any,
) -> Brokers:
    """Match publications on brokers that balance their subscribers while they run.

    Parameters
    ----------
    publications
        A stream. Each column of strings or numbers is an attribute; null means that it is missing.
    subscriptions
        A DataFrame with the columns ``id`` and ``subscription``, read once; or a directory of lines
        ``+id<TAB>subscription`` and ``-id``, read again before every micro-batch.
    brokers, clusters
        The number of edge brokers, and of clusters that they form.
    more
        Further fields of :class:`Brokers`, such as ``place``, ``settings``, ``time_scale`` and ``trace``.

    Returns
    -------
    Brokers
        ``start()`` starts the stream, ``deliveries()`` returns a DataFrame of what was delivered.

    Examples
    --------
    >>> import evenflow  # doctest: +SKIP
    >>> live = evenflow.brokers(quotes, "rules", brokers=8, clusters=2)  # doctest: +SKIP
    >>> query = live.start()  # doctest: +SKIP
    >>> live.deliveries().select("symbol", "broker", "matches")  # doctest: +SKIP
    """
    source = Path(subscriptions) if isinstance(subscriptions, str) else subscriptions
    return Brokers(publications, SubscriptionSource(source), brokers, clusters, **more)


@dataclass
class Brokers:
    """Brokers on a Spark stream, balanced while they run.

    Parameters
    ----------
    publications, subscriptions, brokers, clusters
        As for :func:`brokers`.
    place
        A directory for logs, pinned batches and deliveries; this process and Spark's tasks must reach it.
    settings, time_scale
        The balancer's parameters, or None for no balancing, and the factor for its intervals (see `scaled`).
    entry
        The broker where new subscribers join; by default a random one that is not overloaded.
    mbps, memory_mb
        Each broker's output bandwidth in Mbit/s, and its memory in MB.
    engine
        The kernels for matching: ``"numpy"``, ``"numba"``, or ``"auto"`` for the fastest that are installed.
    clock
        Returns the time in seconds from the number of publications so far; by default, seconds since the start.
    """

    publications: DataFrame
    subscriptions: SubscriptionSource
    brokers: int = 8
    clusters: int = 2
    place: Path = field(default_factory=lambda: Path("brokers"))
    settings: BrokerSettings | None = field(default_factory=lambda: BrokerSettings(**EVEN))
    time_scale: float = 1.0
    entry: str | None = None
    mbps: float = 10_000.0
    memory_mb: float = 1024.0
    engine: Engine = "auto"
    seed: int = 1
    clock: Callable[[int], float] | None = None
    trace: Callable[[Mapping[str, Any]], object] | None = None
    loads: dict[str, Load] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)  # input ratio of every broker, batch by batch
    published: int = 0

    def __post_init__(self) -> None:
        if self.clusters < 1 or self.brokers < self.clusters:
            given = f"{self.brokers} brokers in {self.clusters} clusters"
            raise BadInput(given, "at least one broker for each cluster", "brokers")
        places = sorted((n % self.clusters + 1, n // self.clusters + 1) for n in range(self.brokers))
        self.cluster_of = {f"B{cluster}.{place}": f"B{cluster}" for cluster, place in places}
        self.edges = list(self.cluster_of)
        if self.entry is not None and self.entry not in self.edges:
            raise BadInput(repr(self.entry), f"one of {', '.join(self.edges)}", "brokers: entry")
        self.lane = {name: number for number, name in enumerate(self.edges)}
        self.catalogue = Catalogue()
        self.texts: dict[str, str] = {}
        self.attributes: dict[str, None] = {}
        self.where: dict[str, str] = {}  # subscriber -> the broker whose log has it
        self._logged: dict[str, str] = {}  # subscriber -> its subscription in that log
        self._chance = random.Random(f"{self.seed}/redirect")
        self._batch, self._began = -1, time.monotonic()
        self.meter = LaneMeter(self.edges, self._subscribers, self.mbps * 1e6, self.memory_mb * 1e6)
        self.estimates = Estimates(lambda name: self.loads[name])
        self.session_trace = SessionTrace(self._record, lambda input_ratio, _: input_ratio)
        self.mailbox = self._mailbox()
        self._recalled: dict[str, str] | None = None  # subscriber -> subscription, from an earlier driver
        self._recall()
        if self.settings is not None:
            self.mailbox.start()

    def _mailbox(self) -> BrokerMailbox:
        settings = scaled(self.settings or BrokerSettings(), self.time_scale)
        clusters = sorted(set(self.cluster_of.values()))

        def chance(name: str) -> Callable[[float, float], float]:
            return random.Random(f"{self.seed}/{name}").uniform

        heads, edges, listeners = {}, {}, {}
        for place, cluster in enumerate(clusters):
            head = f"{cluster}.0"
            mine = [name for name in self.edges if self.cluster_of[name] == cluster]
            heads[head] = HeadActor(head, cluster, mine, settings, chance(head))
            for name in mine:
                edges[name] = EdgeBroker(
                    name, cluster, head, settings, self.catalogue, chance(name), speed=1.0, message_size=2000.0
                )
            listeners[m.PIE_LOCAL + cluster] = {head, *mine}
            near = clusters[max(0, place - 1) : place] + clusters[place + 1 : place + 2]  # a chain of clusters
            listeners[m.PIE_GLOBAL + cluster] = {f"{other}.0" for other in near}
        return BrokerMailbox(edges, heads, listeners, self._note)

    # -- running --------------------------------------------------------------------------------

    def start(self, **options: str) -> StreamingQuery:
        """Start the stream; ``options`` go to Spark's writer."""
        check = {"checkpointLocation": str(self.place / "checkpoint"), **options}
        return self.publications.writeStream.foreachBatch(self).options(**check).start()

    def __call__(self, publications: DataFrame, batch: int) -> None:
        """Process one batch of publications, for ``foreachBatch``."""
        if batch > self._batch:
            self._admit()
        pin = self._pinned(batch)
        reader, columns = EventReader(), tuple(publications.columns)
        plain = publications.toDF(*(f"c{place}" for place in range(len(columns))))
        covers = tuple((lane, text) for lane, text in pin["covers"])
        route = Route(covers, tuple(pin["attributes"]), reader, columns)
        lane = Lane(
            tuple(str(self.place / "lanes" / name) for name in self.edges),
            tuple({pin["log"]: size} if size else {} for size in pin["sizes"]),
            reader,
            columns,
            self.engine,
        )
        routed = plain.mapInArrow(route, routed_schema(plain.schema)).repartitionById(len(self.edges), "lane")
        matched = routed.mapInArrow(lane, matched_schema(plain.schema))
        named = matched.toDF("kind", "lane", *columns, "matches", *MEASURES)
        output = self.place / "batches" / f"batch={batch}"
        named.write.mode("overwrite").partitionBy("kind", "lane").parquet(str(output))
        if batch > self._batch:
            self._batch = batch
            self._measure(output)
            self._negotiate(output)

    def _admit(self) -> None:
        """Let new subscribers join and removed ones leave; it takes effect in the next batch."""
        changes = self.subscriptions.changes()
        if self._recalled is not None:  # the first read has all subscribers; the others have left
            known, self._recalled = self._recalled, None
            gone = dict.fromkeys(known.keys() - changes.keys())
            changes = gone | {n: c for n, c in changes.items() if c is None or known.get(n) != c[1]}
        for name, change in changes.items():
            if name in self.mailbox.subscribers:
                self.mailbox.leave(name)
            if change is not None:
                subscription, text = change
                self.texts[name] = text
                self.attributes.update(dict.fromkeys(one.attribute for one in subscription.predicates))
                self.mailbox.join(name, self.catalogue.key(subscription), self.entry or self._redirected())
        for name, count in self._log().items():
            if count > RESET_SHARE * self._subscribers(name):
                self.meter.reset(name)

    def _subscribers(self, name: str) -> int:
        return len(self.mailbox.edges[name].subscribers.key_of)

    def _redirected(self) -> str:
        """Return a random broker that is not overloaded, for a new subscriber (section 3.2)."""
        able = [name for name in self.edges if name not in self.loads or not self.loads[name].above(0.9)]
        return self._chance.choice(able or self.edges)

    def _log(self) -> dict[str, int]:
        """Append changes to the lanes' logs; return the number of changes of each changed lane."""
        lines: dict[str, list[str]] = {name: [] for name in self.edges}
        for name in sorted(self.mailbox.changed):
            home, before = self.mailbox.home_of(name), self.where.get(name)
            if home == before and (home is None or self._logged[name] == self.texts[name]):
                continue
            if before is not None:
                lines[before].append(line_of(name, None))
                del self.where[name], self._logged[name]
            if home is not None:
                lines[home].append(line_of(name, self.texts[name]))
                self.where[name], self._logged[name] = home, self.texts[name]
            else:
                self.texts.pop(name, None)
        self.mailbox.changed.clear()
        for name, new in lines.items():
            if new:
                with self._log_of(name).open("a", encoding="ascii", newline="\n") as log:
                    log.writelines(new)
        return {name: len(new) for name, new in lines.items() if new}

    def _pinned(self, batch: int) -> dict[str, Any]:
        """Return what a batch's deliveries depend on besides its publications, as it was when the batch first started."""

        def pin() -> dict[str, Any]:
            return {
                "log": self._log_name,
                "edges": self.edges,
                "sizes": [self._log_of(name).stat().st_size for name in self.edges],
                "covers": [(self.lane[name], text) for name in self.edges for text in self._covering(name)],
                "attributes": list(self.attributes),
            }

        return pinned(self.place / "pins" / f"{batch}.json", pin)

    def _log_of(self, name: str) -> Path:
        return self.place / "lanes" / name / self._log_name

    def _recall(self) -> None:
        """Start new logs; after a restart, put every subscriber on the lane that it had in the last pinned batch.

        The old logs stay, because Spark repeats a batch that was not committed, and its pin names them.
        Log entries after the last pin never took effect and are ignored.
        """
        lives = [int(file.suffix[1:]) for file in self.place.glob(f"lanes/*/{LOG}.*")]
        pins = [int(file.stem) for file in self.place.glob("pins/*.json")]
        self._log_name = f"{LOG}.{max(lives, default=-1) + 1}"
        for name in self.edges:
            self._log_of(name).parent.mkdir(parents=True, exist_ok=True)
            self._log_of(name).touch()
        if not pins:
            return
        pin = self._pinned(max(pins))
        self._recalled = {}
        for edge, size in zip(pin["edges"], pin["sizes"], strict=True):
            if not size:
                continue
            lines = (self.place / "lanes" / edge / pin["log"]).read_bytes()[:size].split(b"\n")[:-1]
            here = dict(one for line in lines if (one := read_line(line)) is not None)
            for name, text in here.items():
                if text is None:
                    continue
                self._recalled[name] = self.texts[name] = text
                subscription = parse_subscription(text)
                self.attributes.update(dict.fromkeys(one.attribute for one in subscription.predicates))
                home = edge if edge in self.edges else self.entry or self._chance.choice(self.edges)
                self.mailbox.join(name, self.catalogue.key(subscription), home)
        self._log()

    def _covering(self, name: str) -> list[str]:
        """Return a broker's covering set: the texts of the subscriptions that no other one of its own covers."""
        by_key = self.mailbox.edges[name].subscribers.by_key
        roots = [key for key in by_key if by_key.keys().isdisjoint(self.catalogue.above(key))]
        return [self.texts[next(iter(by_key[key]))] for key in sorted(roots)]

    # -- between two batches --------------------------------------------------------------------

    def _measure(self, output: Path) -> None:
        """Compute the brokers' loads from what the lanes measured, and write them to the trace."""
        counted = sum(row["publications"] for row in _rows(output / f"kind={COUNT}"))
        self.published += counted
        now = self.clock(self.published) if self.clock else time.monotonic() - self._began
        seen = {self.edges[row["lane"]]: row for row in _rows(output / f"kind={SAMPLE}")}
        self.loads = self.meter.read(seen, now)
        self.history.append({name: load.input_ratio for name, load in self.loads.items()})
        for name, row in seen.items():
            if row["deliveries"]:
                self.mailbox.edges[name].message_size = 8.0 * row["bytes"] / row["deliveries"]
        for name, load in self.loads.items():
            parts = {"parts": dict(zip(RATIOS, load.ratios(), strict=True))}
            limit = {} if self.settings is None else {"limit": self.settings.lower}
            about = {"kind": "sample", "at": now, "node": name, "clients": self._subscribers(name)}
            self._record({**about, "load": load.input_ratio, **parts, **limit})

    def _negotiate(self, output: Path) -> None:
        """Let the brokers compare loads and agree on moves, which take effect in the next batch."""
        if self.settings is None:
            return
        self._tell()
        for name in self.edges:
            if self.mailbox.edges[name].sampling:
                lists = self._matched(output / f"kind={DELIVERY}" / f"lane={self.lane[name]}")
                if lists:  # as of the batch's start: a batch may be longer than PRESS waits
                    self.mailbox.add_sample(name, lists)
        self._settle()
        while self.mailbox.step(self.meter.now):
            self._settle()

    def _tell(self) -> None:
        """Tell every broker its load; None while its lane is unsettled, unless it is in a session."""
        for name, load in self.loads.items():
            edge = self.mailbox.edges[name]
            known = self.meter.is_settled(name) or edge.giving or edge.taking
            self.mailbox.set_load(name, load if known else None)

    def _settle(self) -> None:
        """Log the moves and reset the meters of the lanes involved."""
        moved = self._log()
        for name in moved:
            self.meter.reset(name, SETTLE_BATCHES)
        if moved:
            self._tell()

    def _matched(self, folder: Path) -> list[tuple[int, ...]]:
        """Return the subscription numbers that each of a lane's first publications matched."""
        settings = self.settings or BrokerSettings()
        wanted = max(settings.press_samples, settings.calm_samples)
        subscribers = self.mailbox.subscribers
        samples: list[tuple[int, ...]] = []
        for file in sorted(folder.glob("*.parquet")):
            lists = pq.ParquetFile(file).read(columns=["matches"]).column("matches").combine_chunks()
            lists = lists.slice(0, wanted - len(samples))
            encoded = lists.flatten().dictionary_encode()
            known = [subscribers[name].key if name in subscribers else -1 for name in encoded.dictionary.to_pylist()]
            keys = np.array(known, dtype=np.int64)[encoded.indices.to_numpy()]
            ends = (lists.offsets.to_numpy() - lists.offsets[0].as_py()).tolist()
            for begin, end in itertools.pairwise(ends):
                samples.append(tuple(k for k in np.unique(keys[begin:end]).tolist() if k >= 0))
        return samples

    def _note(self, record: Mapping[str, Any]) -> None:
        self._record({**record, "batch": self._batch})
        estimate = self.estimates.observe(record)
        self.session_trace.observe(record, estimate)
        if estimate is not None and estimate.measured is not None:
            expected = {"input": estimate.input, "output": estimate.output, "delay": estimate.delay}
            measured = dict(zip(expected, estimate.measured, strict=True))
            place = {"session": estimate.session, "broker": estimate.broker, "side": estimate.side}
            self._record({"kind": "estimate", "at": record["at"], **place, "expected": expected, "measured": measured})

    def _record(self, record: Mapping[str, Any]) -> None:
        if self.trace is not None:
            self.trace(record)

    # -- results --------------------------------------------------------------------------------

    def deliveries(self) -> DataFrame:
        """Return every delivery so far: the publication's columns, its broker, and the ids of its subscribers."""
        folder = self.place / "batches"
        files = [str(one) for one in sorted(folder.glob(f"*/kind={DELIVERY}"))]
        frame = self.publications.sparkSession.read.option("basePath", str(folder)).parquet(*files)
        names = F.element_at(F.array(*(F.lit(name) for name in self.edges)), F.col("lane") + 1)
        return frame.select(*self.publications.columns, names.alias("broker"), "matches")


def _rows(folder: Path) -> list[dict[str, Any]]:
    """Return the measures in a folder, with the lane from each file's path."""
    rows: list[dict[str, Any]] = []
    for file in sorted(folder.glob("**/*.parquet")):
        lane = next((int(part[5:]) for part in file.parts if part.startswith("lane=")), 0)
        rows += [{**row, "lane": lane} for row in pq.ParquetFile(file).read(columns=list(MEASURES)).to_pylist()]
    return rows
