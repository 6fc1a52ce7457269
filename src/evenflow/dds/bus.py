"""The topics as an actor's driver sees them: control, acknowledgements, caches, and the items behind a slice filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from evenflow.dds.cargo import Assembly, samples_of
from evenflow.dds.codec import MalformedError, message_from_json, message_to_json
from evenflow.dds.domain import participant, reliable
from evenflow.dds.idl import Acks, CacheTopic, Control, item_type, value_names
from evenflow.slices.messages import Ack, Cargo, Item

CONTROL, ACKS, CACHES = "evenflow_control", "evenflow_acks", "evenflow_caches"
AT_ONCE = 500  # samples taken from one reader before timers get their turn
_ANY = SampleState.Any | ViewState.Any | InstanceState.Any


class Bus:
    """One process's place on a domain; writers and readers are made when they are first needed."""

    def __init__(self, domain: int) -> None:
        self.participant = participant(domain)
        self.qos = reliable()
        self.malformed = 0
        self.blocked = 0
        self._waitset = WaitSet(self.participant)
        self._conditions: dict[Any, Any] = {}
        self._topics: dict[str, Any] = {}
        self._writers: dict[Any, Any] = {}

    def topic(self, name: str, kind: type) -> Any:
        """Return the topic without a filter."""
        if name not in self._topics:
            self._topics[name] = Topic(self.participant, name, kind, qos=self.qos)
        return self._topics[name]

    def writer(self, name: str, kind: type, owner: str = "") -> Any:
        """Return the writer of a topic; every ``owner`` has one of its own."""
        key = (name, owner)
        if key not in self._writers:
            self._writers[key] = DataWriter(self.participant, self.topic(name, kind), qos=self.qos)
        return self._writers[key]

    def open(self, name: str, kind: type, make_filter: Callable[[Any], Any] | None = None) -> tuple[Any, Any]:
        """Open a reader, with the filter that ``make_filter`` makes for its topic entity; return both."""
        if make_filter is None:
            reader = DataReader(self.participant, self.topic(name, kind), qos=self.qos)
            found = None
        else:
            topic: Any = Topic(
                self.participant, name, kind, qos=self.qos
            )  # a filter belongs to a topic entity of its own
            found = make_filter(topic)
            reader = DataReader(self.participant, topic, qos=self.qos)
        condition = ReadCondition(reader, _ANY)
        self._waitset.attach(condition)
        self._conditions[reader] = condition
        return reader, found

    def close(self, reader: Any) -> None:
        """Close a reader."""
        self._waitset.detach(self._conditions.pop(reader))

    def wait(self, seconds: float) -> None:
        """Return when a sample is here or the time is over."""
        if seconds > 0:
            self._waitset.wait(duration(microseconds=max(1, int(seconds * 1e6))))

    def write(self, writer: Any, sample: Any) -> bool:
        """Write; say whether the transport took it. What it does not take in time is the sender's to repeat."""
        try:
            writer.write(sample)
        except DDSException as error:
            if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                raise
            self.blocked += 1
            return False
        return True

    def take(self, reader: Any) -> list[Any]:
        """Take what is here, without the marks that a writer is gone."""
        return [s for s in reader.take(AT_ONCE) if s.sample_info.valid_data]


class ControlPort:
    """Control messages, caches and acknowledgements of one actor."""

    def __init__(self, bus: Bus, name: str, *, caches: bool) -> None:
        self.bus = bus
        self.name = name
        self.sent = 0
        self.received = 0
        self._control, _ = bus.open(CONTROL, Control)
        self._caches = bus.open(CACHES, CacheTopic)[0] if caches else None
        self._assembly = Assembly(name)
        bus.writer(CONTROL, Control)
        if caches:  # now, so that readers know them when the first cache goes out
            bus.writer(CACHES, CacheTopic)
            bus.writer(ACKS, Acks)

    def matched(self) -> bool:
        """Say whether somebody else's reader and writer of control messages are there."""
        readers = self.bus.writer(CONTROL, Control).get_matched_subscriptions()
        return len(readers) > 1 and len(self._control.get_matched_publications()) > 1  # its own count too

    def send(self, to: str, message: Any) -> None:
        """Send one message; nothing promises that it arrives."""
        self.sent += 1
        if type(message) is Cargo:
            writer = self.bus.writer(CACHES, CacheTopic)
            for sample in samples_of(self.name, to, message):
                self.bus.write(writer, sample)
            return
        self.bus.write(self.bus.writer(CONTROL, Control), Control(to, self.name, message_to_json(message)))

    def acknowledge(self, items: Any) -> None:
        """Tell publishers what is committed, in one sample."""
        self.bus.write(self.bus.writer(ACKS, Acks), Acks(self.name, items))

    def arrived(self) -> Iterator[tuple[str, Any]]:
        """Take the messages for this actor, each with its sender."""
        for sample in self.bus.take(self._control):
            if sample.to != self.name:
                continue
            self.received += 1
            try:
                yield sample.sender, message_from_json(sample.body)
            except MalformedError:
                self.bus.malformed += 1
        for sample in self.bus.take(self._caches) if self._caches is not None else ():
            try:
                complete = self._assembly.add(sample)
            except MalformedError:
                self.bus.malformed += 1
                continue
            if complete is not None:
                self.received += 1
                yield complete


class AckPort:
    """The acknowledgements that reach the publishers of one process."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._reader, _ = bus.open(ACKS, Acks)

    def arrived(self) -> Iterator[tuple[str, Ack]]:
        """Take acknowledgements, each with its sender."""
        for sample in self.bus.take(self._reader):
            yield sample.sender, Ack(tuple(sample.items))


def to_sample(item: Item, kind: type) -> Any:
    """Return the sample of an item; its value is a mapping or an object of ``kind``."""
    value = item.value
    names = value_names(kind)
    fields = [value[n] for n in names] if isinstance(value, Mapping) else [getattr(value, n) for n in names]
    return item_type(kind)(item.id, item.settled, item.slice, item.cost, *fields)


def to_item(sample: Any, topic: str, kind: type) -> Item:
    """Return the item of a sample; its value is a mapping of plain data."""
    value = {name: _plain(getattr(sample, name)) for name in value_names(kind)}
    return Item(sample.item_id, sample.slice, topic, sample.settled, sample.cost, value)


def _plain(value: Any) -> Any:
    if hasattr(value, "__idl__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return [_plain(part) for part in value] if isinstance(value, list) else value
