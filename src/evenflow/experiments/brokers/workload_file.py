"""QuoteWorkload files of Cheung 2006, section 5.1: brokers, publishers and changes of rate, one line each.

``1.0 broker add B0 500 16 10`` (MHz, MB, Mbit/s), ``2.0 publisher add P1 YHOO 10 B0`` (messages per minute),
``60.0 publisher chrate P1 20``; ours is ``10.0 subscriber add S1 B1 [class,eq,'STOCK']``.
A broker connects to the first one, or to the one that a further word names; its role follows from its neighbours (section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from evenflow.brokers.peer import Role, roles_of
from evenflow.errors import BadInput
from evenflow.experiments.brokers.overlay import BrokerSpec
from evenflow.experiments.brokers.workload import QuotePublisher
from evenflow.subscriptions.language import LanguageError, Subscription, parse_subscription

ALLOWED = (
    "TIME broker add ID MHZ MB MBPS [BROKER], TIME publisher add ID SYMBOL RATE BROKER, TIME publisher chrate ID RATE "
    "or TIME subscriber add ID BROKER SUBSCRIPTION"
)
FEWEST = 3  # brokers; with fewer there are no roles (section 3.2)


@dataclass
class WorkloadFile:
    """The contents of a workload file.

    Parameters
    ----------
    brokers
        The brokers in the order of joining, with their roles.
    links
        Pairs of heads that are connected.
    joins
        When brokers join that come after the first clients.
    publishers
        By id: symbol, when it joins, and its rates from when on; ``places`` has the brokers they connect to.
    subscribers
        Time, subscription and broker of each; without any they are drawn.
    """

    brokers: list[BrokerSpec] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    joins: dict[str, float] = field(default_factory=dict)
    publishers: dict[str, tuple[str, float, list[tuple[float, float]]]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    subscribers: dict[str, tuple[float, Subscription, str]] = field(default_factory=dict)

    @property
    def symbols(self) -> list[str]:
        """The stocks that are published."""
        return [symbol for symbol, _, _ in self.publishers.values()]

    def sources(self) -> list[QuotePublisher]:
        """Return the publishers; each starts half-way to its first message."""
        return [
            QuotePublisher(number, joins, tuple(rates), 0.5)
            for number, (_, joins, rates) in enumerate(self.publishers.values())
        ]


def read_workload(path: Path) -> WorkloadFile:
    """Read a workload file.

    Raises
    ------
    BadInput
        When the file cannot be read or a line is wrong; with the line's number.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # strings may hold other line ends, such as U+2028
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"'{path}' ({error})", "a file that can be read", "--set workload") from None
    found = WorkloadFile()
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            _line(found, line, f"{path}, line {number}")
    if len(found.brokers) < FEWEST:
        raise BadInput(f"{len(found.brokers)} brokers", f"at least {FEWEST}, a head and two others", str(path))
    if not found.publishers:
        raise BadInput("no publisher", "at least one", str(path))
    _give_roles(found, str(path))
    return found


def _give_roles(found: WorkloadFile, where: str) -> None:
    """Set the roles as PEER does; a broker that joins late must not turn another one, which has clients, into a head."""
    near = {spec.name: spec.head or "" for spec in found.brokers}  # as read: the broker that it connects to
    roles = roles_of((name, to) for name, to in near.items() if to)
    early = roles_of((name, to) for name, to in near.items() if to and name not in found.joins)
    for name in found.joins:
        if early.get(near[name]) is not Role.HEAD:
            raise BadInput(f"broker {name} that joins {near[name]} after clients", "to join a cluster head", where)
    heads = {name for name, role in roles.items() if role is Role.HEAD}
    neighbours: dict[str, list[str]] = {name: [to] if to else [] for name, to in near.items()}
    for name, to in near.items():
        if to:
            neighbours[to].append(name)
    found.links = [(to, name) for name, to in near.items() if to in heads and name in heads]
    for place, spec in enumerate(found.brokers):
        head = None if spec.name in heads else neighbours[spec.name][0]
        found.brokers[place] = spec._replace(cluster=head or spec.name, head=head)
    found.brokers.sort(key=lambda spec: spec.head is not None)  # heads first, otherwise as they joined
    astray = [name for name, broker in found.places.items() if _head_of(found, broker) != found.brokers[0].name]
    if astray:
        allowed = f"publishers in the cluster of {found.brokers[0].name}, where all of them are here"
        raise BadInput(f"publisher {astray[0]} at {found.places[astray[0]]}", allowed, where)


def _head_of(found: WorkloadFile, broker: str) -> str:
    """Return the head that serves a publisher which connects to this broker."""
    return next(spec.head or spec.name for spec in found.brokers if spec.name == broker)


def _line(found: WorkloadFile, line: str, where: str) -> None:
    words = line.split()
    at = _number(words[0], where)
    read = _READERS.get((words[1], words[2]) if len(words) > 2 else ("", ""))
    if read is None:
        raise BadInput(repr(" ".join(words)), ALLOWED, where)
    if read is _subscriber:
        words = line.strip().split(maxsplit=5)  # keep the subscription as written, with its spaces
    try:
        read(found, at, words[3:], where)
    except BadInput:
        raise
    except (ValueError, IndexError):
        raise BadInput(repr(" ".join(words)), ALLOWED, where) from None


def _broker(found: WorkloadFile, at: float, words: list[str], where: str) -> None:
    name, mhz, memory, mbps = words[0], *(_number(word, where) for word in words[1:4])
    if found.publishers or found.subscribers:
        found.joins[name] = at
    if min(mhz, memory, mbps) <= 0.0:
        raise BadInput(repr(" ".join(words[1:])), "MHz, MB and Mbit/s above 0", where)
    if any(spec.name == name for spec in found.brokers):
        raise BadInput(f"broker {name} twice", "an id for each broker", where)
    to = words[4] if len(words) > 4 else found.brokers[0].name if found.brokers else None
    if to is not None:
        _known(found, to, where)
    found.brokers.append(BrokerSpec(name, name, to, mhz, memory, mbps))  # its role is set when all brokers are known


def _publisher(found: WorkloadFile, at: float, words: list[str], where: str) -> None:
    name, symbol, rate, broker = words
    _known(found, broker, where)  # wherever it connects, a publisher is redirected to the head (section 3.2)
    if name in found.publishers or symbol in found.symbols:
        raise BadInput(f"{name} for {symbol} twice", "an id and a stock of its own for each publisher", where)
    found.publishers[name] = (symbol, at, [(0.0, _number(rate, where))])
    found.places[name] = broker


def _change(found: WorkloadFile, at: float, words: list[str], where: str) -> None:
    name, rate = words
    if name not in found.publishers:
        raise BadInput(f"publisher {name}", "one that was added before", where)
    rates = found.publishers[name][2]
    if at < rates[-1][0]:
        raise BadInput(f"a change at {at:g} s", f"not before the last one, at {rates[-1][0]:g} s", where)
    rates.append((at, _number(rate, where)))


def _subscriber(found: WorkloadFile, at: float, words: list[str], where: str) -> None:
    name, broker, text = words
    _known(found, broker, where)
    if name in found.subscribers:
        raise BadInput(f"subscriber {name} twice", "an id for each subscriber", where)
    try:
        found.subscribers[name] = (at, parse_subscription(text), broker)
    except LanguageError as error:
        raise BadInput(repr(text), f"a subscription ({error})", where) from None


def _known(found: WorkloadFile, broker: str, where: str) -> None:
    if all(spec.name != broker for spec in found.brokers):
        raise BadInput(f"broker {broker}", "one that was added before", where)


def _number(word: str, where: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise BadInput(repr(word), "a number", where) from None
    if not 0.0 <= value < 1e12:
        raise BadInput(repr(word), "a number of at least 0", where)
    return value


_READERS: dict[tuple[str, str], Callable[[WorkloadFile, float, list[str], str], None]] = {
    ("broker", "add"): _broker,
    ("publisher", "add"): _publisher,
    ("publisher", "chrate"): _change,
    ("subscriber", "add"): _subscriber,
}
