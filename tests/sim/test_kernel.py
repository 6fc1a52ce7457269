"""Virtual time is exact: the same seed gives the same bytes, a crash takes memory and leaves what was saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from evenflow.actor import Note, Received, Save, Send, Started, Wake, Woken
from evenflow.sim import Network, Simulation
from evenflow.trace import line


class Chatter:
    """Answers every message a few times and talks to itself; everything it sees goes on the trace."""

    def __init__(self, name: str, peers: list[str]) -> None:
        self.name = name
        self.peers = peers

    def handle(self, event: Any, now: float) -> list[Any]:
        if isinstance(event, Received):
            note = Note({"kind": "note", "at": now, "to": self.name, "from": event.sender, "got": event.message})
            return [note, Send(event.sender, event.message - 1)] if event.message else [note]
        if isinstance(event, Woken) and now >= 5.0:
            return []
        return [Wake(now + 0.5), *(Send(peer, 3) for peer in self.peers if peer != self.name)]


FAULTY = {"delay": 0.01, "jitter": 0.05, "loss": 0.1, "duplication": 0.1, "reordering": 0.1}


def chatter(seed: int, network: dict[str, float] = FAULTY) -> str:
    lines: list[str] = []
    sim = Simulation(seed, Network(**network), lambda record: lines.append(line(record)))
    peers = ["a", "b", "c"]
    for name in peers:
        sim.add(name, lambda n=name: Chatter(n, peers))
    sim.at(2.0, lambda: sim.crash("b"))
    sim.at(3.0, lambda: sim.restart("b"))
    sim.run()
    return "\n".join(lines)


def test_the_same_seed_gives_the_same_trace_byte_for_byte():
    assert chatter(7) == chatter(7)
    assert len(chatter(7).splitlines()) > 100


def test_another_seed_gives_another_trace():
    assert len({chatter(seed) for seed in range(5)}) == 5


def test_without_chance_in_the_network_the_seed_does_not_matter():
    assert chatter(1, {"delay": 0.01}) == chatter(2, {"delay": 0.01})


class TestChance:
    def draws(self, sim: Simulation, name: str) -> list[float]:
        stream = sim.chance(name)
        return [stream.random() for _ in range(5)]

    def test_a_stream_depends_on_seed_and_name_alone(self):
        alone = self.draws(Simulation(3), "workload")
        sim = Simulation(3, Network(jitter=1.0))
        self.draws(sim, "faults")
        sim.add("a", lambda: Chatter("a", ["a", "a2"]))
        sim.run()
        assert self.draws(sim, "workload") == alone

    def test_names_and_seeds_give_different_streams(self):
        names = [self.draws(Simulation(3), name) for name in ("a", "b", "network", "")]
        seeds = [self.draws(Simulation(seed), "a") for seed in range(10)]
        assert len({tuple(d) for d in names}) == 4
        assert len({tuple(d) for d in seeds}) == 10

    def test_what_an_experiment_draws_does_not_change_the_network(self):
        def arrivals(*, draws: int) -> list[float]:
            seen: list[float] = []
            sim = Simulation(5, Network(jitter=1.0), lambda record: seen.append(record["at"]))
            sim.add("echo", lambda: Script(Received, lambda event, now: [Note({"at": now})]))
            stream = sim.chance("experiment")
            for _ in range(draws):
                stream.random()
            for _ in range(5):
                sim.post("me", "echo", "hello")
            sim.run()
            return seen

        assert arrivals(draws=0) == arrivals(draws=100)


class Script:
    """Does one thing on one kind of event."""

    def __init__(self, kind: type, answer: Callable[[Any, float], list[Any]]) -> None:
        self.kind = kind
        self.answer = answer

    def handle(self, event: Any, now: float) -> list[Any]:
        return self.answer(event, now) if isinstance(event, self.kind) else []


class Counter:
    """Counts messages in memory and saves every second one; wakes once a second."""

    def __init__(self) -> None:
        self.count = 0
        self.wakes: list[float] = []

    def handle(self, event: Any, now: float) -> list[Any]:
        if isinstance(event, Started):
            self.count = event.saved.get("count", 0)
            return [Wake(now + 1.0, "again")]
        if isinstance(event, Woken):
            self.wakes.append(now)
            return [Wake(now + 1.0, "again")]
        self.count += 1
        return [Save({"count": self.count})] if self.count % 2 == 0 else []


class TestCrash:
    def test_memory_is_gone_and_what_was_saved_stays(self):
        sim = Simulation(1)
        sim.add("counter", Counter)
        for _ in range(5):
            sim.post("me", "counter", "more")
        sim.run(until=0.5)
        assert sim.cells["counter"].actor.count == 5
        sim.crash("counter")
        assert not sim.running("counter")
        sim.restart("counter")
        sim.run(until=0.6)
        assert sim.cells["counter"].actor.count == 4

    def test_wake_ups_are_gone(self):
        sim = Simulation(1)
        sim.add("counter", Counter)
        sim.run(until=2.5)
        sim.crash("counter")
        sim.restart("counter")
        sim.run(until=5.0)
        # the old life's wake-up at 3.0 does not reach the new one, whose own come at 3.5 and 4.5
        assert sim.cells["counter"].actor.wakes == [3.5, 4.5]

    def test_messages_to_the_dead_go_nowhere_and_those_under_way_find_the_next_life(self):
        sim = Simulation(1, Network(delay=1.0))
        sim.add("counter", Counter)
        sim.run(until=0.1)
        sim.post("me", "counter", "arrives while it is down")
        sim.crash("counter")
        sim.run(until=1.5)
        sim.post("me", "counter", "arrives after the restart")
        sim.restart("counter")
        sim.run(until=3.0)
        assert sim.cells["counter"].actor.count == 1

    def test_a_restarted_actor_begins_before_anything_reaches_it(self):
        # a message that arrives at the very moment of the restart must not find an actor without its memory
        kinds: list[str] = []
        sim = Simulation(1, Network(delay=1.0))
        sim.add("x", lambda: Script(object, lambda event, now: kinds.append(type(event).__name__) or []))
        sim.run(until=0.0)
        sim.at(1.0, lambda: sim.restart("x"))
        sim.post("me", "x", "at 1.0 sharp")
        sim.crash("x")
        sim.run()
        assert kinds == ["Started", "Started", "Received"]

    def test_a_running_actor_is_not_restarted(self):
        sim = Simulation(1)
        sim.add("counter", Counter)
        sim.run(until=0.1)
        before = sim.cells["counter"].actor
        sim.restart("counter")
        sim.run(until=0.2)
        assert sim.cells["counter"].actor is before

    def test_a_journal_gives_the_notes_back(self):
        remembered: list[Any] = []

        def answer(event: Any, now: float) -> list[Any]:
            if isinstance(event, Started):
                remembered.append(list(event.saved.get("notes", ())))
                return []
            return [Note({"said": event.message})]

        sim = Simulation(1)
        sim.add("x", lambda: Script(object, answer), journal=True)
        sim.post("me", "x", "one")
        sim.post("me", "x", "two")
        sim.run()
        sim.crash("x")
        sim.restart("x")
        sim.run()
        assert remembered == [[], [{"said": "one"}, {"said": "two"}]]

    def test_none_forgets_a_saved_key(self):
        sim = Simulation(1)
        sim.add("x", lambda: Script(Received, lambda event, now: [Save(event.message)]))
        sim.post("me", "x", {"a": 1, "b": 2})
        sim.post("me", "x", {"a": None})
        sim.run()
        assert sim.cells["x"].saved == {"b": 2}

    def test_what_is_removed_is_gone_for_good_and_its_name_is_free(self):
        sim = Simulation(1, Network(delay=1.0))
        sim.add("counter", Counter)
        with pytest.raises(ValueError, match="'counter' runs already"):
            sim.add("counter", Counter)
        sim.post("me", "counter", "more")
        sim.remove("counter")
        assert not sim.running("counter")
        sim.post("me", "counter", "more")  # to nobody
        sim.add("counter", Counter)
        sim.run(until=5.0)
        assert sim.cells["counter"].actor.count == 0


class TestClock:
    def test_a_run_stops_at_its_time_and_goes_on_from_there(self):
        sim = Simulation(1)
        sim.add("counter", Counter)
        sim.run(until=2.0)
        assert sim.now == 2.0
        assert sim.cells["counter"].actor.wakes == [1.0, 2.0]  # an event at the very end belongs to it
        sim.run(until=3.7)
        assert sim.now == 3.7
        assert sim.cells["counter"].actor.wakes == [1.0, 2.0, 3.0]

    def test_a_run_to_completion_ends_with_the_last_event(self):
        sim = Simulation(1)
        happened: list[float] = []
        for at in (3.0, 1.0, 2.0):
            sim.at(at, lambda: happened.append(sim.now))
        sim.run()
        assert happened == [1.0, 2.0, 3.0]
        assert sim.now == 3.0
        assert sim.events == 3

    def test_nothing_happens_in_the_past(self):
        sim = Simulation(1)
        sim.run(until=5.0)
        happened: list[float] = []
        sim.at(1.0, lambda: happened.append(sim.now))
        sim.add("late", lambda: Script(Started, lambda event, now: [Wake(0.0)]))
        sim.run()
        assert happened == [5.0]
        assert sim.now == 5.0

    def test_what_happens_at_the_same_time_happens_in_the_order_it_was_caused(self):
        sim = Simulation(1)
        happened: list[int] = []
        for number in range(20):
            sim.at(1.0, lambda n=number: happened.append(n))
        sim.run()
        assert happened == list(range(20))


def test_a_systems_own_commands_are_carried_out_by_the_driver():
    class Execute(NamedTuple):
        task: str

    done: list[tuple[str, Any]] = []
    sim = Simulation(1)
    sim.carry_out[Execute] = lambda who, command: done.append((who, command.task))
    sim.add("x", lambda: Script(Started, lambda event, now: [Execute("t")]))
    sim.run()
    assert done == [("x", "t")]


def test_deliver_goes_past_the_network():
    seen: list[Any] = []
    sim = Simulation(1, Network(loss=1.0))
    sim.add("x", lambda: Script(Received, lambda event, now: seen.append(event.message) or []))
    sim.post("me", "x", "lost")
    sim.deliver("x", Received("me", "brought"))
    sim.deliver("nobody", Received("me", "brought"))
    sim.run()
    assert seen == ["brought"]
