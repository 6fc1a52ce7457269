"""Brokers at a large scale: a thousand brokers and a million subscribers, with rates instead of single publications.

The actors are the same as elsewhere. A broker's load is computed from the subscriptions that it serves: the rate of the
quotes that match any of them, the matching delay of its subscriptions, and the output to its subscribers.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.head import HeadActor
from evenflow.brokers.load import Load, MemoryUse
from evenflow.brokers.mailbox import BrokerMailbox
from evenflow.experiments.brokers.data_path import MEGA, BrokerModel
from evenflow.experiments.brokers.quotes import TEXTS, quotes
from evenflow.experiments.brokers.settings import PadresSettings
from evenflow.experiments.figures import SERIES, Figure, Series
from evenflow.experiments.registry import Experiment, Row, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.subscriptions.language import parse_subscription
from evenflow.subscriptions.matching import Index

Floats = npt.NDArray[np.float64]
SPEEDS = ((500, 12.0), (1000, 20.0), (2000, 40.0))  # MHz and Mbit/s of the brokers, drawn
STEP_S = 10.0  # seconds between two steps, in which subscribers join and brokers act


@dataclass(frozen=True)
class ScaleSettings:
    """The settings of `padres-scale`."""

    brokers: int = setting(1000, "edge brokers", low=2, high=10_000)
    clusters: int = setting(100, "clusters, in a chain", low=1, high=2000)
    subscribers: int = setting(1_000_000, "subscribers", low=1, high=5_000_000)
    seconds: float = setting(3600.0, "virtual seconds", low=100.0)
    join_until: float = setting(600.0, "when the last subscriber joins", low=10.0)
    symbols: int = setting(12, "stocks", low=1, high=100)
    levels: int = setting(4, "values that a subscription may name, per stock and attribute", low=1, high=100)
    rate: float = setting(30.0, "publications per second", low=0.1)
    skew: float = setting(0.5, "how unevenly subscribers choose brokers: the exponent of Zipf's law", low=0.0, high=2.0)
    sizes: str = setting("0.1,0.3,1", "parts of this size to run, separated by commas, such as 0.1,0.3,1")


@dataclass
class ScaleMarket:
    """The publications, and the subscriptions to choose from.

    Parameters
    ----------
    catalogue
        The subscriptions.
    weights
        How likely each is.
    rates
        Publications per second of each quote.
    wanted
        For each quote and subscription whether they match.
    """

    catalogue: Catalogue
    weights: list[float]
    rates: Floats
    wanted: npt.NDArray[np.float32]
    keys: list[tuple[int, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, settings: ScaleSettings, seed: int) -> ScaleMarket:
        """Draw quotes, and make every subscription of Table 5.1 with a few values for each stock."""
        names = [f"S{n:02}" for n in range(settings.symbols)]
        table = quotes(seed, names, 40)
        chance = np.random.default_rng([seed, 3])
        catalogue, weights = Catalogue(), dict[int, float]()
        columns = {name: np.array(table.column(name).to_pylist()) for name in ("symbol", "high", "low", "volume")}
        steps = np.linspace(0.1, 0.9, settings.levels)
        for weight, text in TEXTS:
            for symbol in names if "{symbol}" in text else names[:1]:
                mine = columns["symbol"] == symbol if "{symbol}" in text else np.ones(table.num_rows, dtype=bool)
                values = [
                    {n: float(np.quantile(columns[n][mine], s)) for n in ("high", "low", "volume")} for s in steps
                ]
                texts = {text.format(symbol=symbol, **{n: round(v, 2) for n, v in one.items()}) for one in values}
                for one in sorted(texts):
                    key = catalogue.key(parse_subscription(one))
                    share = weight / len(texts) / (len(names) if "{symbol}" in text else 1)
                    weights[key] = weights.get(key, 0.0) + share
        index = Index((key, catalogue.subscription(key)) for key in range(len(catalogue)))
        lists = index.match(table).lists().to_pylist()
        wanted = np.zeros((table.num_rows, len(catalogue)), dtype=np.float32)
        for row, found in enumerate(lists):
            wanted[row, found] = 1.0
        drawn = chance.random(settings.symbols)
        rates = np.repeat(drawn, 40) / (drawn.sum() * 40) * settings.rate
        return cls(catalogue, [weights[k] for k in range(len(catalogue))], rates, wanted, [tuple(f) for f in lists])


class Site:
    """One broker's load, computed from rates whenever its subscribers change."""

    def __init__(self, market: ScaleMarket, actor: EdgeBroker, mhz: float, mbps: float, model: BrokerModel) -> None:
        self.market, self.actor, self.mhz, self.model = market, actor, mhz, model
        self.bandwidth = mbps * MEGA
        self.per_key = market.rates @ market.wanted
        self._version = -1
        self._known: Load | None = None
        self._chosen: Floats = np.zeros(len(market.rates))

    def load(self) -> Load:
        """Return the load (Eq. 3.1 to 3.3 and 4.11)."""
        subscribers, model = self.actor.subscribers, self.model
        if self._known is None or subscribers.version != self._version:
            self._version = subscribers.version
            served = {key: len(names) for key, names in subscribers.by_key.items()}
            keys = np.fromiter(served, dtype=np.int64, count=len(served))
            counts = np.fromiter(served.values(), dtype=np.float64, count=len(served))
            self._chosen = np.where(self.market.wanted[:, keys].any(axis=1), self.market.rates, 0.0)
            rate, clients = float(self._chosen.sum()), len(subscribers.key_of)
            n = model.system + clients
            delay = model.per_subscription * n / self.mhz
            out = float(self.per_key[keys] @ counts) * model.message_bytes * 8
            memory = MemoryUse(0.0, 0.0, n * model.engine_bytes, 1024.0 * MEGA)
            slope = model.per_subscription / self.mhz
            self._known = Load(n, delay, rate, out, self.bandwidth, min(1.0, rate * delay), memory, slope)
        return self._known

    def sample(self, chance: np.random.Generator, number: int) -> list[tuple[int, ...]]:
        """Draw a sample of the publications that reach the broker."""
        self.load()
        total = self._chosen.sum()
        if not total:
            return []
        rows = chance.choice(len(self._chosen), number, p=self._chosen / total)
        return [self.market.keys[row] for row in rows.tolist()]


class Scale:
    """One run of `padres-scale`."""

    def __init__(self, settings: ScaleSettings, seed: int, trace: TraceWriter | None) -> None:
        self.settings, self.trace = settings, trace
        self.market = ScaleMarket.of(settings, seed)
        self.chance = random.Random(f"{seed}/scale")
        self.draws = np.random.default_rng([seed, 5])
        self.sessions: list[Mapping[str, Any]] = []
        self.global_sessions = 0
        balancing = PadresSettings(balancer="even").broker_settings()
        # Only large differences matter here; and the cost of heads that know all others grows with the square of the clusters.
        self.balancing = replace(balancing, calm_s=0.0, far=False)
        model = BrokerModel()
        self.mailbox = self._mailbox()
        self.sites: dict[str, Site] = {}
        for name, actor in self.mailbox.edges.items():
            mhz, mbps = self.chance.choice(SPEEDS)
            self.sites[name] = Site(self.market, actor, mhz, mbps, model)
        self.mailbox.load = lambda name: self.sites[name].load()

    def _mailbox(self) -> BrokerMailbox:
        settings = self.settings
        heads: dict[str, HeadActor] = {}
        edges: dict[str, EdgeBroker] = {}
        listeners: dict[str, set[str]] = {}
        for number in range(settings.clusters):
            cluster = f"C{number:04}"
            mine = [f"{cluster}.{n}" for n in range(number, settings.brokers, settings.clusters)]
            head = f"{cluster}.head"
            heads[head] = HeadActor(head, cluster, mine, self.balancing, self._uniform(head))
            for name in mine:
                edges[name] = EdgeBroker(
                    name, cluster, head, self.balancing, self.market.catalogue, self._uniform(name), speed=1.0
                )
            listeners[m.PIE_LOCAL + cluster] = {head, *mine}
            near = [n for n in (number - 1, number + 1) if 0 <= n < settings.clusters]
            listeners[m.PIE_GLOBAL + cluster] = {f"C{n:04}.head" for n in near}
        return BrokerMailbox(edges, heads, listeners, self._note)

    def _uniform(self, name: str) -> Callable[[float, float], float]:
        return random.Random(f"{self.chance.random()}/{name}").uniform

    def _note(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "broker_session":
            self.sessions.append(record)
        elif record["kind"] == "global_session":
            self.global_sessions += 1
        if self.trace is not None:
            self.trace(record)

    def run(self) -> dict[str, Any]:
        """Let subscribers join brokers unevenly while the brokers balance; return the results."""
        settings, mailbox = self.settings, self.mailbox
        begun = time.process_time()
        mailbox.start()
        names = list(mailbox.edges)
        self.chance.shuffle(names)
        liked = [1.0 / (place + 1) ** settings.skew for place in range(len(names))]
        keys = range(len(self.market.catalogue))
        joined, worst = 0, 0.0
        for step in range(1, int(settings.seconds / STEP_S) + 1):
            now = step * STEP_S
            due = min(settings.subscribers, round(settings.subscribers * now / settings.join_until)) - joined
            for key, broker in zip(
                self.chance.choices(keys, self.market.weights, k=due),
                self.chance.choices(names, liked, k=due),
                strict=True,
            ):
                mailbox.join(str(joined), key, broker)
                joined += 1
            self._sample()
            mailbox.run(now)
            if step % 6 == 0:
                worst = max(worst, *(site.load().input_ratio for site in self.sites.values()))
        return self._findings(time.process_time() - begun, worst)

    def _sample(self) -> None:
        for name, actor in self.mailbox.edges.items():
            if actor.sampling:
                self.mailbox.add_sample(name, self.sites[name].sample(self.draws, actor.settings.press_samples))

    def _findings(self, seconds: float, worst: float) -> dict[str, Any]:
        loads = {name: site.load() for name, site in self.sites.items()}
        clusters: dict[str, list[float]] = {}
        for name, load in loads.items():
            clusters.setdefault(name.split(".")[0], []).append(load.input_ratio)
        inside = [max(ratios) - min(ratios) for ratios in clusters.values()]
        homes = sum(len(actor.subscribers.key_of) for actor in self.mailbox.edges.values())
        astray = sum(
            name not in self.mailbox.edges[one.home].subscribers.key_of if one.home else True
            for name, one in self.mailbox.subscribers.items()
        )
        return {
            "brokers": self.settings.brokers,
            "clusters": self.settings.clusters,
            "subscribers": len(self.mailbox.subscribers),
            "homes": homes,
            "astray": astray,
            "sessions": len(self.sessions),
            "moved": sum(s["moved"] for s in self.sessions),
            "global_sessions": self.global_sessions,
            "messages": self.mailbox.messages,
            "max_input": worst,
            "max_input_end": max(load.input_ratio for load in loads.values()),
            "overloaded_end": sum(load.above(0.95) for load in loads.values()),
            "cluster_spread_mean": sum(inside) / len(inside),
            "cpu_s": seconds,
        }


def run(settings: ScaleSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run every size; the results are those of the last one."""
    curve, found = [], dict[str, Any]()
    for part in [float(word) for word in settings.sizes.split(",")]:
        sized = replace(
            settings,
            brokers=max(2, round(settings.brokers * part)),
            clusters=max(1, round(settings.clusters * part)),
            subscribers=max(1, round(settings.subscribers * part)),
        )
        gc.disable()  # a million subscribers without cycles: collecting would only cost time
        try:
            found = Scale(sized, seed, trace).run()
        finally:
            gc.enable()
        curve.append({"brokers": sized.brokers, "cpu_s": found["cpu_s"], "moved": found["moved"]})
    return {**found, SERIES: curve}


def figures(rows: Sequence[Row], _: Any) -> list[Figure]:
    """Return a figure of the cost by size."""
    first: Any = rows[0]
    sizes = [point["brokers"] for point in first[SERIES]]
    cost = Series("CPU seconds", sizes, [point["cpu_s"] for point in first[SERIES]])
    return [Figure("Cost of a virtual run by size", "edge brokers", "CPU seconds", [cost], "One run for each size.")]


SCALE = Experiment(
    "padres-scale",
    "a thousand brokers, a million subscribers: the same actors, rates instead of publications.",
    ScaleSettings,
    run,
    figures,
)
