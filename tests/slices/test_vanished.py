"""A node that vanishes for good at any step of a session blocks nobody: the session ends, and so does a drain."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from evenflow.experiments.slices.faults import session_step
from evenflow.experiments.slices.world import BALANCER, World
from evenflow.policies import named
from evenflow.sim import Network, Simulation
from evenflow.slices.algorithm import Planned
from evenflow.slices.balancer import Drain
from evenflow.slices.publisher import Due
from evenflow.slices.settings import BalancerSettings, NodeSettings

SLICES, ITEMS = 12, 600


class Vanishing:
    """Three nodes share the slices; node-0 is drained, and one node of its first session vanishes at a step."""

    def __init__(self, victim: str, step: str, *, answered: bool = False, lost: str = "") -> None:
        self.victim, self.step, self.answered, self.lost = victim, step, answered, lost
        self.gone_at = float("inf")
        self.session: tuple[int, str, str] | None = None
        self.notes: list[Any] = []
        self.sim = Simulation(1, Network(delay=0.002, intercept=self.see), self.write)
        self.world = World(
            self.sim,
            NodeSettings(slices=SLICES, speed=1e6, drain_s=0.01, monitor_s=0.5),
            BalancerSettings(slices=SLICES, timeout_s=1.0),
            lambda: Planned(named("even_counts"), name="even_counts"),
        )
        for number in range(3):
            self.world.join(f"node-{number}")
        self.world.publish(Due(n / 30, n % SLICES) for n in range(ITEMS))
        self.sim.at(10.0, lambda: self.sim.post("operator", BALANCER, Drain("node-0")))
        self.sim.run(until=60.0)
        self.balancer: Any = self.sim.cells[BALANCER].actor

    def write(self, record: Any) -> None:
        self.notes.append(record)
        if record["kind"] == "session" and record["at"] >= 10.0 and self.session is None:
            self.session = (record["session"], record["giver"], record["taker"])

    def see(self, sender: str, to: str, message: Any, now: float) -> list[float] | None:
        about = session_step(message)
        if about is None or self.session is None or about[0] != self.session[0]:
            return None
        name = self.session[1 if self.victim == "giver" else 2]
        if about[1] == self.lost:
            return []
        if about[1] == self.step and (to == BALANCER) == self.answered and self.gone_at > now:
            self.gone_at = now
            self.sim.at(now, lambda: self.sim.crash(name))
        return None

    def ended(self) -> dict[str, Any]:
        """Return the last note of the session that lost a node."""
        assert self.session is not None
        return [n for n in self.notes if n["kind"] == "session" and n["session"] == self.session[0]][-1]

    def owners(self) -> Counter[str]:
        """Return who has how many slices, as the nodes themselves have it on disk."""
        found: Counter[str] = Counter()
        for name in self.world.nodes:
            saved = self.sim.cells[name].saved
            found[name] += sum(key.startswith("slice/") for key in saved)
        return found


FORWARD = ("stop", "expect", "remove", "ship", "open")
TAKER_HAS_IT = {("ship", True), ("open", False), ("open", True)}


@pytest.mark.parametrize("answered", [False, True], ids=["asked", "answered"])
@pytest.mark.parametrize("step", FORWARD)
def test_a_drain_ends_although_the_taker_vanishes(step, answered):
    run = Vanishing("taker", step, answered=answered)
    assert run.gone_at < 11.0
    assert run.balancer.sessions == {}
    assert run.ended()["at"] < run.gone_at + 8.0
    assert run.ended()["step"] == ("done" if (step, answered) in TAKER_HAS_IT else "rolled back")
    assert [n["node"] for n in run.notes if n.get("step") == "let go"] == ["node-0"]
    gone = run.session[2]
    (other,) = {"node-1", "node-2"} - {gone}
    stay = SLICES // 3 + (2 if (step, answered) in TAKER_HAS_IT else 0)
    assert Counter(run.balancer.map.owner) == {other: SLICES - stay, gone: stay}
    assert run.owners()[other] == SLICES - stay


@pytest.mark.parametrize("step", ["readmit", "resume", "clean"])
def test_a_taker_that_vanishes_during_a_rollback(step):
    run = Vanishing("taker", step, lost="expect")
    assert run.gone_at < 20.0
    assert run.balancer.sessions == {}
    assert [n["node"] for n in run.notes if n.get("step") == "let go"] == ["node-0"]
    assert Counter(run.balancer.map.owner)["node-0"] == 0


@pytest.mark.parametrize("answered", [False, True], ids=["asked", "answered"])
@pytest.mark.parametrize("step", FORWARD)
def test_a_session_ends_although_the_giver_vanishes(step, answered):
    run = Vanishing("giver", step, answered=answered)
    assert run.gone_at < 11.0
    assert run.balancer.sessions == {}
    assert run.balancer.waiting_movements() == 0
    assert run.ended()["at"] < run.gone_at + 8.0
    moved = (step, answered) in TAKER_HAS_IT
    assert run.ended()["step"] == ("done" if moved else "rolled back")
    assert Counter(run.balancer.map.owner)["node-0"] == SLICES // 3 - (2 if moved else 0)
    assert run.balancer.map.moving == {}


@pytest.mark.parametrize("victim", ["giver", "taker"])
def test_one_that_comes_back_hears_how_it_ended(victim):
    run = Vanishing(victim, "ship")
    name = run.session[1 if victim == "giver" else 2]
    run.sim.restart(name)
    run.sim.run(until=90.0)
    assert run.balancer.map.untold == set()
    assert run.world.unacknowledged() == 0
    assert sum(run.owners().values()) == SLICES  # no remainder anywhere
    run.world.note_final()
    finals = Counter(i for n in run.notes if n["kind"] == "final" for i in n["ids"])
    assert len(finals) == ITEMS
    assert set(finals.values()) == {1}
