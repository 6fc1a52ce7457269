"""The topics as an actor's driver sees them: control, acknowledgements, caches, and the items behind a slice filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from cyclonedds._clayer import ddspy_take  # samples as octets, so that one that is malformed spoils no other
from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from evenflow.dds.domain import participant, reliable
from evenflow.dds.wire.cargo import Assembly, samples_of
from evenflow.dds.wire.codec import message_from_json, message_to_json
from evenflow.dds.wire.fields import name as checked_name
from evenflow.dds.wire.idl import Acks, CacheTopic, Control
from evenflow.dds.wire.incoming import Incoming, sample_of
from evenflow.slices.messages import Ack, Cargo

CONTROL, ACKS, CACHES = "evenflow_control", "evenflow_acks", "evenflow_caches"
AT_ONCE = 500  # samples taken from one reader before timers get their turn
_ANY = SampleState.Any | ViewState.Any | InstanceState.Any
T = TypeVar("T")
Message = tuple[str, Any]  # a sender and what it said


class Bus:
    """One process's place on a domain; writers and readers are made when they are first needed."""

    def __init__(self, domain: int) -> None:
        self.participant = participant(domain)
        self.qos = reliable()
        self.incoming = Incoming()
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

    def writer(self, name: str, kind: type, owner: str = "", qos: Any = None) -> Any:
        """Return the writer of a topic; every ``owner`` has one of its own."""
        key = (name, owner)
        if key not in self._writers:
            self._writers[key] = DataWriter(self.participant, self.topic(name, kind), qos=qos or self.qos)
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

    def take(self, reader: Any, topic: str, read: Callable[[bytes], T]) -> Iterator[T]:
        """Take what is here and return what ``read`` makes of it; what it refuses is dropped and counted."""
        found = ddspy_take(reader._ref, _ANY, AT_ONCE)  # noqa: SLF001
        if isinstance(found, int):
            raise DDSException(found, f"while taking from topic {topic!r}")
        # without the marks that a writer is gone
        return self.incoming.admit(topic, (data for data, info in found if info.valid_data), read)


class ControlReader:
    """Reads control messages and cargoes for one actor.

    Parameters
    ----------
    name
        The actor's.
    check
        Refuses what the actor cannot use, given its sender; see :mod:`evenflow.dds.wire.roles`.
    """

    def __init__(self, name: str, check: Callable[[str, Any], None]) -> None:
        self.name = name
        self._check = check
        self._assembly = Assembly(name)

    def control(self, data: bytes) -> Message | None:
        """Read a sample of the control topic; ``None`` if it is for another."""
        sample = sample_of(Control, data)
        if sample.to != self.name:
            return None
        message = message_from_json(sample.body)
        self._check(sample.sender, message)
        return sample.sender, message

    def cargo(self, data: bytes) -> Message | None:
        """Read a sample of the cache topic; ``None`` if it is for another, or more parts are to come."""
        complete = self._assembly.add(sample_of(CacheTopic, data))
        if complete is not None:
            self._check(*complete)
        return complete


class ControlPort:
    """Control messages, caches and acknowledgements of one actor."""

    def __init__(self, bus: Bus, name: str, check: Callable[[str, Any], None], *, caches: bool) -> None:
        self.bus = bus
        self.name = name
        self.sent = 0
        self.received = 0
        self._read = ControlReader(name, check)
        self._control, _ = bus.open(CONTROL, Control)
        self._caches = bus.open(CACHES, CacheTopic)[0] if caches else None
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

    def arrived(self) -> Iterator[Message]:
        """Take the messages for this actor, each with its sender."""
        readers = [(self._control, CONTROL, self._read.control), (self._caches, CACHES, self._read.cargo)]
        for reader, topic, read in readers:
            for message in self.bus.take(reader, topic, read) if reader is not None else ():
                if message is not None:
                    self.received += 1
                    yield message


class AckPort:
    """The acknowledgements that reach the publishers of one process."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._reader, _ = bus.open(ACKS, Acks)

    def arrived(self) -> Iterator[tuple[str, Ack]]:
        """Take acknowledgements, each with its sender."""
        yield from self.bus.take(self._reader, ACKS, read_acks)


def read_acks(data: bytes) -> tuple[str, Ack]:
    """Read a sample of the topic of acknowledgements."""
    sample = sample_of(Acks, data)
    return checked_name(sample.sender), Ack(tuple(sample.items))
