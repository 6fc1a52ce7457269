"""Publishers and subscribers for plain Python programs: dataclasses in, dataclass fields out."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from evenflow.dds.bus import Bus
from evenflow.dds.domain import received
from evenflow.dds.readers import SliceReaders
from evenflow.dds.results import draw_publisher
from evenflow.dds.seen import Seen
from evenflow.dds.wire.fields import PUBLISHERS
from evenflow.dds.wire.idl import item_type, value_names
from evenflow.dds.wire.types_on_wire import Publications
from evenflow.dds.wire.values import to_sample
from evenflow.dds.writers import WritersProcess
from evenflow.errors import BadInput, nearest
from evenflow.slices.assignment import parse_assignment
from evenflow.slices.ledger import item_id
from evenflow.slices.messages import Item
from evenflow.slices.publisher import Due
from evenflow.slices.topics import Count, Topic

Assign = str | Callable[[Any], Any] | None
_CHECK_S = 0.2


def publish(
    topic: str,
    items: Iterable[Any],
    *,
    assign: Assign = None,
    slices: int = 1,
    domain: int = 0,
    publisher: int | None = None,
    readers: int = 1,
    patience_s: float = 10.0,
    committed: bool = False,
) -> int:
    """Write dataclass objects to a topic, each with the numeric id and the slice that DPSLB requires.

    Parameters
    ----------
    items
        Objects of one dataclass.
    assign
        Which slice an item belongs to: a function of the object, or a specification such as ``modulo:sensor``.
    publisher
        The high part of the ids, one per publisher; drawn by chance if not given.
    readers
        Wait until so many readers are there: what is written before goes to nobody.
    committed
        Keep every item until a node has committed it, and write it again until then: for topics that nodes process.

    Returns
    -------
    int
        How many items were written.

    Raises
    ------
    BadInput
        When an item is no object of the first one's dataclass, or its slice does not exist.
    TimeoutError
        When nobody reads the topic, or items were not received (or committed) in time.
    """
    iterator = iter(items)
    first = next(iterator, None)
    if first is None:
        return 0
    number = draw_publisher() if publisher is None else publisher
    if not 0 <= number < PUBLISHERS:
        raise BadInput(str(publisher), f"a whole number from 0 to {PUBLISHERS - 1}", "publisher")
    kind: Any = type(first)
    struct = item_type(kind)
    slice_of = _assignment(assign, slices, kind)
    if committed:
        return _publish_committed(topic, kind, _chained(first, iterator), slice_of, domain, number, patience_s)
    bus = Bus(domain)
    writer = bus.writer(topic, struct)
    _until(lambda: len(writer.get_matched_subscriptions()) >= readers, patience_s, f"nobody reads topic {topic!r}")
    count = 0
    for value in _chained(first, iterator):
        _check_kind(value, kind, count)
        item = Item(item_id(number, count), slice_of(value), topic, count, value=value)
        if not bus.write(writer, to_sample(item, kind)):
            msg = f"a reader of topic {topic!r} is full and does not read"
            raise TimeoutError(msg)
        count += 1
    if not received(writer, patience_s):
        msg = f"not every reader of topic {topic!r} received everything within {patience_s:g} s"
        raise TimeoutError(msg)
    return count


def _publish_committed(
    topic: str, kind: type, values: Iterator[Any], slice_of: Any, domain: int, number: int, patience_s: float
) -> int:
    def schedule() -> Iterator[Due]:
        for count, value in enumerate(values):
            _check_kind(value, kind, count)
            yield Due(time.time(), slice_of(value), topic=topic, value=value)

    process = WritersProcess({number: schedule()}, {topic: kind}, domain, None, items=None, patience_s=patience_s)
    left = process.run()
    if left:
        msg = f"{left} items of topic {topic!r} were not committed within {patience_s:g} s"
        raise TimeoutError(msg)
    return process.publishers[number].written


class Subscription:
    """A reader of one topic, with the slices it wants; see :func:`subscribe`."""

    def __init__(
        self,
        topic: str,
        kind: type,
        on_data: Callable[[Item], object],
        on_correlating_data: Callable[[Item], object] | None,
        own: frozenset[int] | None,
        slices: int,
        accepts: Topic,
        domain: int,
        overlap_s: float,
    ) -> None:
        self._bus = Bus(domain)
        self._publications = Publications(self._bus.participant, topic, item_type(kind))
        self._readers = SliceReaders(self._bus, {topic: (kind, True)}, slices, overlap_s)
        self._slices = slices
        self._on_data, self._on_correlating_data = on_data, on_correlating_data
        self._accepts = accepts
        self._seen = Seen()
        self._check_at = 0.0
        self._own: frozenset[int] | None = None
        self.change(own)

    def change(self, own: Iterable[int] | None) -> None:
        """Want other slices: a second reader overlaps the first until the writers know it (section 3.5)."""
        self._own = None if own is None else frozenset(own)
        if self._own is not None and not all(0 <= s < self._slices for s in self._own):
            raise BadInput(str(sorted(self._own)), f"slices from 0 to {self._slices - 1}", "own")
        filtered = self._on_correlating_data is None
        self._readers.listen(self._own if filtered else None, time.time())

    def counts(self) -> tuple[int, int]:
        """Return how many samples reached the filters, and how many they let through."""
        return self._readers.counts()

    @property
    def dropped(self) -> int:
        """How many samples did not fit and were dropped."""
        return self._bus.incoming.total

    def poll(self, seconds: float = 0.1) -> int:
        """Wait for items at most so long, and hand over what is here; return how many.

        Raises
        ------
        BadInput
            When a publisher of the topic has another type.
        """
        self._bus.wait(seconds)
        now = time.time()
        if now >= self._check_at:
            self._check_at = now + _CHECK_S
            self._publications.check()
        handed = 0
        for item in self._readers.arrived(any_slice=self._own is None):
            handed += self._hand(item)
        self._readers.close_due(now)
        self._bus.incoming.tell()
        return handed

    def run(self, seconds: float) -> int:
        """Poll for so long; return how many items were handed over."""
        end = time.time() + seconds
        handed = 0
        while (left := end - time.time()) > 0:
            handed += self.poll(min(0.1, left))
        return handed

    def _hand(self, item: Item) -> bool:
        if not self._accepts.wants(item) or not self._seen.add(item.id):
            return False
        if self._own is None or item.slice in self._own:
            self._on_data(item)
        elif self._on_correlating_data is not None:
            self._on_correlating_data(item)
        else:
            self._on_data(item)  # the old reader had accepted it before the filter changed
        return True


def subscribe(
    topic: str,
    on_data: Callable[[Item], object],
    on_correlating_data: Callable[[Item], object] | None = None,
    *,
    type: type,  # noqa: A002 - the word of the topic
    own: Iterable[int] | None = None,
    slices: int = 1,
    filter: str | None = None,  # noqa: A002 - DDS's word
    parameters: Sequence[str] = (),
    domain: int = 0,
    overlap_s: float = 0.25,
) -> Subscription:
    """Read a topic: ``on_data`` gets the items of the slices in ``own`` (all if ``None``), each once.

    With ``on_correlating_data`` every item arrives, and those of other slices go there;
    without it the reader's filter keeps them away.

    Parameters
    ----------
    type
        The dataclass of the items; ``item.value`` is a mapping of its fields.
    filter, parameters
        A condition over the fields, with ``%0``, ``%1`` … for parameters.

    Raises
    ------
    BadInput
        When the type cannot travel, or the filter is malformed or names a field that the type has not.
    """
    names = value_names(type) if dataclasses.is_dataclass(type) else ()
    item_type(type)  # refuses what cannot travel
    accepts = Topic(topic, Count())
    if filter is not None:
        from evenflow.expression import parse  # noqa: PLC0415

        for name in sorted(parse(filter, parameters).names):
            if name not in names:
                raise BadInput(f"the field {name!r}", nearest(name, names), f"filter of topic {topic!r}")
        accepts = Topic.filtered(topic, Count(), filter, parameters)
    wanted = None if own is None else frozenset(own)
    return Subscription(topic, type, on_data, on_correlating_data, wanted, slices, accepts, domain, overlap_s)


def _assignment(assign: Assign, slices: int, kind: type) -> Callable[[Any], int]:
    if assign is None:
        return lambda value: 0
    if callable(assign):
        function: Callable[[Any], Any] = assign
    else:
        parsed = parse_assignment(assign, slices)

        def function(value: Any) -> int:
            return int(parsed.assign(dataclasses.asdict(value)))

    def checked(value: Any) -> int:
        found = function(value)
        if not isinstance(found, int) or not 0 <= found < slices:
            raise BadInput(f"slice {found!r}", f"a whole number from 0 to {slices - 1}", f"assign of {kind.__name__}")
        return found

    return checked


def _check_kind(value: Any, kind: type, count: int) -> None:
    if type(value) is not kind:
        raise BadInput(f"a {type(value).__name__}", f"a {kind.__name__}, as the first", f"items[{count}]")


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _until(holds: Callable[[], bool], patience_s: float, what: str) -> None:
    end = time.time() + patience_s
    while not holds():
        if time.time() > end:
            msg = f"{what} (waited {patience_s:g} s)"
            raise TimeoutError(msg)
        time.sleep(0.02)
