"""Plain publishers and subscribers: clear errors, and filters that change while items flow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass

import pytest

from evenflow.dds import publish, subscribe
from evenflow.dds.domain import LOOPBACK, configuration, participant
from evenflow.dds.wire.idl import item_type
from evenflow.errors import BadInput

DOMAIN = 20 + os.getpid() % 60


@dataclass
class Place:
    room: str
    floor: int


@dataclass
class Reading:
    sensor: int
    temperature: float
    tags: list[str]
    place: Place


def readings(count):
    return [Reading(i, i / 2, ["a", str(i)], Place(f"r{i}", -i)) for i in range(count)]


def publish_later(*arguments, **options):
    thread = threading.Thread(target=publish, args=arguments, kwargs=options)
    thread.start()
    return thread


def until(subscription, holds, seconds=40):
    end = time.time() + seconds
    while not holds() and time.time() < end:
        subscription.poll()
    assert holds()


def test_values_arrive_as_they_were_written_with_ids():
    got = []
    reading = subscribe("plain", got.append, type=Reading, domain=DOMAIN, slices=3)
    thread = publish_later("plain", readings(20), assign="modulo:sensor", slices=3, domain=DOMAIN, publisher=7)
    until(reading, lambda: len(got) == 20)
    thread.join()
    assert [i.value for i in got] == [
        {"sensor": i, "temperature": i / 2, "tags": ["a", str(i)], "place": {"room": f"r{i}", "floor": -i}}
        for i in range(20)
    ]
    assert [i.id for i in got] == [(7 << 40) | i for i in range(20)]
    assert [i.slice for i in got] == [i % 3 for i in range(20)]


def test_a_content_filter_and_correlating_data():
    own, other = [], []
    options = {
        "type": Reading,
        "domain": DOMAIN,
        "slices": 2,
        "own": {0},
        "filter": "sensor >= %0",
        "parameters": ["4"],
    }
    reading = subscribe("correlating", own.append, other.append, **options)
    thread = publish_later("correlating", readings(10), assign=lambda r: r.sensor % 2, slices=2, domain=DOMAIN)
    until(reading, lambda: len(own) + len(other) == 6)
    thread.join()
    assert [i.value["sensor"] for i in own] == [4, 6, 8]
    assert [i.value["sensor"] for i in other] == [5, 7, 9]


def test_two_readers_hand_a_slice_over_and_nothing_is_lost_or_doubled():
    """The overlap of section 3.5: the taker widens its filter, then the giver narrows its own."""
    count, slices = 3000, 6
    left, right = [], []
    options = {"type": Reading, "domain": DOMAIN, "slices": slices, "overlap_s": 0.5}
    giver = subscribe("handed", left.append, own={0, 1, 2}, **options)
    taker = subscribe("handed", right.append, own={3, 4, 5}, **options)

    def slowly():
        for value in readings(count):
            yield value
            time.sleep(0.002)

    thread = publish_later(
        "handed", slowly(), assign=lambda r: r.sensor % slices, slices=slices, domain=DOMAIN, readers=2
    )
    widened = narrowed = False
    end = time.time() + 60
    while time.time() < end and (thread.is_alive() or len({i.id for i in left + right}) < count):
        giver.poll(0.01)
        taker.poll(0.01)
        if not widened and len(left) > 300:
            widened = True
            taker.change({2, 3, 4, 5})
            widened_at = time.time()
        if widened and not narrowed and time.time() - widened_at > 1.0:
            narrowed = True
            giver.change({0, 1})
    thread.join()
    assert widened
    assert narrowed
    assert len({i.id for i in left + right}) == count  # complete
    for got in (left, right):
        assert len({i.id for i in got}) == len(got)  # nothing twice at one reader, although two readers overlapped
    both = {i.id for i in left} & {i.id for i in right}
    assert {i.slice for i in left + right if i.id in both} <= {2}  # the merge removes these
    assert not [i for i in right if i.slice in {0, 1}]
    assert not [i for i in left if i.slice > 2]
    last = max(i.id for i in left + right)
    assert not [i for i in left if i.slice == 2 and i.id > last - 100]  # after the change the streams are disjoint
    seen, passed = giver.counts()
    assert passed < seen  # the filter did keep samples away


def test_what_cannot_travel_is_named():
    @dataclass
    class Odd:
        number: int
        thing: complex

    @dataclass
    class Taken:
        slice: int

    for kind, name in ((Odd, "Odd.thing"), (Taken, "'slice'"), (int, "dataclass")):
        with pytest.raises(BadInput, match=name):
            item_type(kind)
    with pytest.raises(BadInput, match="dataclass"):
        subscribe("x", print, type=int, domain=DOMAIN)


@pytest.mark.parametrize(
    ("filter_", "match"), [("temperature >", "column 14"), ("temprature > 3", "'temprature'"), ("3 + 4", "condition")]
)
def test_a_malformed_filter_is_refused_at_once(filter_, match):
    with pytest.raises(BadInput, match=match):
        subscribe("x", print, type=Reading, filter=filter_, domain=DOMAIN)


def test_items_of_another_type_or_slice_are_refused():
    heard = subscribe("mixed", lambda item: None, type=Reading, domain=DOMAIN)
    with pytest.raises(BadInput, match=r"items\[1\]"):
        publish("mixed", [readings(1)[0], Place("a", 1)], domain=DOMAIN)
    with pytest.raises(BadInput, match="slice 7"):
        publish("mixed", readings(1), assign=lambda r: 7, slices=3, domain=DOMAIN)
    del heard


def test_nobody_there_is_an_error_in_time():
    with pytest.raises(TimeoutError, match="nobody reads topic 'void'"):
        publish("void", readings(1), domain=DOMAIN, patience_s=0.3)


DEAF = textwrap.dedent(
    """
    import sys, time
    sys.path.insert(0, sys.argv[1])
    from evenflow.dds import subscribe
    from deaf_app import Place

    reading = subscribe("deaf", print, type=Place, domain=int(sys.argv[2]))
    print("ready", flush=True)
    time.sleep(60)
    """
)


def test_a_reader_that_does_not_receive_is_an_error_in_time(tmp_path):
    """The reader's process stops after it was found: it does not say that it has received anything."""
    (tmp_path / "deaf_app.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Place:\n    room: str\n    floor: int\n"
    )
    deaf = subprocess.Popen([sys.executable, "-c", DEAF, str(tmp_path), str(DOMAIN)], stdout=subprocess.PIPE, text=True)

    def places():
        yield Place("a", 1)
        deaf.send_signal(signal.SIGSTOP)
        yield Place("b", 2)

    try:
        assert deaf.stdout.readline() == "ready\n"
        with pytest.raises(TimeoutError, match="not every reader of topic 'deaf' received everything within 2 s"):
            publish("deaf", places(), domain=DOMAIN, patience_s=2.0)
    finally:
        deaf.kill()
        deaf.wait()
        deaf.stdout.close()


@pytest.mark.parametrize("publisher", [-1, 1 << 23])
@pytest.mark.parametrize("committed", [False, True])
def test_a_publisher_s_number_fits_into_ids(publisher, committed):
    with pytest.raises(BadInput, match="publisher"):
        publish("x", readings(1), domain=DOMAIN, publisher=publisher, committed=committed)


def test_publishers_in_one_process_have_numbers_of_their_own():
    got = []
    reading = subscribe("twice", got.append, type=Reading, domain=DOMAIN)
    for _ in range(2):
        thread = publish_later("twice", readings(5), domain=DOMAIN)
        until(reading, lambda: not thread.is_alive())  # noqa: B023
    until(reading, lambda: len(got) == 10)


OTHER = textwrap.dedent(
    """
    import time
    from dataclasses import dataclass
    from evenflow.dds.bus import Bus
    from evenflow.dds.wire.idl import item_type

    @dataclass
    class Place:
        room: str
        floor: int

    @dataclass
    class Reading:
        sensor: int
        temperature: str
        tags: list[str]
        place: Place

    bus = Bus({domain})
    writer = bus.writer("clash", item_type(Reading))
    print("ready", flush=True)
    time.sleep(60)
    """
)


def test_a_publisher_of_an_incompatible_type_is_an_error_that_names_the_field():
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER.replace("{domain}", str(DOMAIN))], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout.readline() == "ready\n"
        reading = subscribe("clash", lambda item: None, type=Reading, domain=DOMAIN)
        with pytest.raises(BadInput, match="temperature"):
            reading.run(30)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_the_user_s_own_configuration_wins(monkeypatch):
    monkeypatch.delenv("CYCLONEDDS_URI", raising=False)
    assert configuration() == LOOPBACK
    assert 'name="lo"' in LOOPBACK
    monkeypatch.setenv("CYCLONEDDS_URI", "<CycloneDDS/>")
    assert configuration() == "<CycloneDDS/>"
    with pytest.raises(BadInput, match="231"):
        participant(231)
