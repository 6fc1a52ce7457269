"""The cache topic is the one that the DPSLB thesis prints: a reader declared from Figure 21 alone reads it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest
from cyclonedds.idl.types import byte

from evenflow.dds.bus import CACHES, Bus, ControlPort
from evenflow.dds.wire.cargo import Assembly, halves, uuid_of
from evenflow.dds.wire.columns import hints_of, part_of
from evenflow.dds.wire.idl import CacheTopic
from evenflow.slices.ledger import Ledger
from evenflow.slices.messages import Cargo, Item, Parcel

DOMAIN = 20 + os.getpid() % 60

PRINTED = textwrap.dedent(
    """
    import sys
    from dataclasses import dataclass

    from cyclonedds.domain import DomainParticipant
    from cyclonedds.idl import IdlStruct
    from cyclonedds.idl.annotations import key
    from cyclonedds.idl.types import byte, int32, int64, sequence
    from cyclonedds.qos import Policy, Qos
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic
    from cyclonedds.util import duration


    @dataclass
    class CacheTopic(IdlStruct, typename="CacheTopic"):
        sliceId: int32
        key("sliceId")
        leastSignificantBitsSenderId: int64
        mostSignificantBitsSenderId: int64
        leastSignificantBitsReceiverId: int64
        mostSignificantBitsReceiverId: int64
        dataItemCollection: sequence[byte]


    qos = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepAll)
    participant = DomainParticipant(int(sys.argv[1]))
    reader = DataReader(participant, Topic(participant, "evenflow_caches", CacheTopic, qos=qos), qos=qos)
    print("ready", flush=True)
    found = []
    for sample in reader.take_iter(timeout=duration(seconds=30)):
        found.append(sample)
        if len(found) == 2:
            break
    for sample in found:
        print(sample.sliceId, sample.mostSignificantBitsSenderId, sample.leastSignificantBitsSenderId,
              sample.mostSignificantBitsReceiverId, sample.leastSignificantBitsReceiverId,
              bytes(sample.dataItemCollection).hex(), flush=True)
    """
)


def test_a_reader_of_the_printed_type_reads_the_caches():
    bus = Bus(DOMAIN)
    port = ControlPort(bus, "giver", lambda sender, message: None, caches=True)
    reader = subprocess.Popen([sys.executable, "-c", PRINTED, str(DOMAIN)], stdout=subprocess.PIPE, text=True)
    try:
        assert reader.stdout.readline() == "ready\n"
        writer = bus.writer(CACHES, CacheTopic)
        bus_wait(lambda: len(writer.get_matched_subscriptions()) >= 2)  # our own and the printed one
        item = Item(5, 1, "data", 2, 1.5, {"a": 1})
        port.send("taker", Cargo(3, {1: Parcel({"data": 5}, Ledger(), (item,)), 2: Parcel({}, Ledger(), ())}))
        lines = [reader.stdout.readline().split() for _ in range(2)]
    finally:
        reader.kill()
        reader.wait()
        reader.stdout.close()
    assert [int(line[0]) for line in lines] == [1, 2]
    assembly = Assembly("taker")
    arrived = None
    for line in lines:
        assert tuple(map(int, line[1:3])) == halves(uuid_of("giver"))
        assert tuple(map(int, line[3:5])) == halves(uuid_of("taker"))
        ids = [int(line[i]) for i in (2, 1, 4, 3)]
        arrived = assembly.add(CacheTopic(int(line[0]), *ids, list(bytes.fromhex(line[5]))))
    sender, cargo = arrived
    assert (sender, cargo.session, cargo.parcels[1].cache) == ("giver", 3, (item,))


def bus_wait(holds, seconds=30.0):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    assert holds()


def test_the_type_has_the_printed_name_and_octets():
    assert CacheTopic.__idl__.idl_transformed_typename == "CacheTopic"
    assert part_of(part_of(hints_of(CacheTopic)["dataItemCollection"]).subtype) == part_of(byte)


@pytest.mark.parametrize("slice_id", [0, 7])
def test_the_key_is_the_slice(slice_id):
    sample = CacheTopic(slice_id, 1, 2, 3, 4, [5])
    other = CacheTopic(slice_id, 9, 9, 9, 9, [])
    assert sample.serialize_key() == other.serialize_key()
    assert sample.serialize_key() != CacheTopic(slice_id + 1, 1, 2, 3, 4, [5]).serialize_key()
