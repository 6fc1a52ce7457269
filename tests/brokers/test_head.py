"""Cluster heads: whom they ask, what they pass on, and when a global session ends (sections 3.3.2.2 and 3.4.3)."""

from __future__ import annotations

from exact import exact

from evenflow.actor import Received, Send, Started, Woken
from evenflow.brokers import messages as m
from evenflow.brokers.head import HeadActor
from evenflow.brokers.pie import Pie
from evenflow.brokers.settings import EVEN, BrokerSettings
from evenflow.brokers.status import Status


def sent(commands, to):
    return [c.message for c in commands if isinstance(c, Send) and c.to == to]


def head(settings=None, edges=("A1", "A2")):
    actor = HeadActor("A0", "A", edges, settings or BrokerSettings(), lambda low, _high: low)
    actor.handle(Started({}), 0.0)
    return actor


def local(name, ratio, now, actor, cluster="A", balanced=(), status=Status.OK):
    return actor.handle(Received(name, Pie(name, cluster, status, (ratio, ratio, 0.01), frozenset(balanced))), now)


def cluster(name, ratio, status=Status.OK):
    return Received(f"{name}0", Pie(f"{name}0", name, status, (ratio, ratio, 0.01), scope="cluster"))


def test_a_cluster_that_is_loaded_less_by_more_than_the_threshold_is_asked():
    actor = head()
    local("A1", 0.5, 1.0, actor)
    local("A2", 0.7, 1.0, actor)
    assert sent(actor.handle(cluster("B", 0.5), 2.0), "B0") == []  # 0.1 less than the average of 0.6
    asked = sent(actor.handle(cluster("C", 0.4), 3.0), "C0")
    assert [type(message) for message in asked] == [m.ClusterRequest]


def session(actor, other="C"):
    local("A1", 0.5, 1.0, actor)
    local("A2", 0.7, 1.0, actor)
    request = sent(actor.handle(cluster(other, 0.1), 2.0), f"{other}0")[0]
    began = actor.handle(Received(f"{other}0", m.ClusterReply(request.session, Status.OK, other)), 3.0)
    assert exact(sent(began, "A1")) == exact([m.Watch(other, request.session)])
    return request.session


def test_a_session_ends_when_everybody_is_balanced_with_everybody():
    actor = head()
    session(actor)
    names = {"A1", "A2", "C1"}
    local("C1", 0.4, 4.0, actor, "C", names - {"C1"})
    local("A1", 0.4, 4.0, actor, "A", names - {"A1"})
    assert actor.partner is not None
    ended = local("A2", 0.4, 5.0, actor, "A", names - {"A2"})
    assert actor.partner is None
    assert [type(message) for message in sent(ended, "C0")] == [m.ClusterDone]
    assert exact(sent(ended, "A2")) == exact([m.Unwatch("C")])


def test_a_request_that_comes_again_is_answered_again_and_the_session_stays():
    actor = head()
    request = Received("C0", m.ClusterRequest("C0.0.1", "C"))
    first = actor.handle(request, 2.0)
    assert exact(sent(first, "C0")) == exact([m.ClusterReply("C0.0.1", Status.OK, "A")])
    assert exact(sent(first, "A1")) == exact([m.Watch("C", "C0.0.1")])
    partner = actor.partner
    for now in (3.0, 9.0):
        assert exact(actor.handle(request, now)) == exact([Send("C0", m.ClusterReply("C0.0.1", Status.OK, "A"))])
    assert actor.partner is partner
    other = actor.handle(Received("D0", m.ClusterRequest("D0.0.1", "D")), 10.0)
    assert exact(sent(other, "D0")) == exact([m.ClusterReply("D0.0.1", Status.BUSY, "A")])


def test_a_session_without_moves_ends_too():
    actor = head()
    session(actor)
    local("A1", 0.5, 250.0, actor)
    actor.handle(Woken(("detect", actor._detect_at)), 299.0)
    assert actor.partner is not None
    local("A1", 0.5, 330.0, actor)
    actor.handle(Woken(("detect", actor._detect_at)), 340.0)
    assert actor.partner is None


def test_three_calls_for_help_end_a_session_that_does_not_help():
    actor = head()
    session(actor)
    for _ in range(2):
        actor.handle(Received("A1", m.GlobalRequest("A1")), 5.0)
        assert actor.partner is not None
    actor.handle(Received("A1", m.GlobalRequest("A1")), 6.0)
    assert actor.partner is None


def test_only_an_overloaded_cluster_passes_on_what_it_hears_unless_told_to():
    for settings, status, passed in (
        (BrokerSettings(), Status.OK, False),
        (BrokerSettings(), Status.NA, True),
        (BrokerSettings(far=True), Status.OK, True),
    ):
        actor = head(settings)
        local("A1", 0.96 if status is Status.NA else 0.4, 1.0, actor, status=status)
        assert bool(sent(actor.handle(cluster("B", 0.4), 2.0), m.PIE_GLOBAL + "A")) is passed


def test_our_heads_mind_small_differences_when_it_is_calm_and_leave_a_useless_partner_alone():
    actor = head(BrokerSettings(**EVEN))
    local("A1", 0.5, 190.0, actor)
    local("A2", 0.5, 190.0, actor)
    request = sent(actor.handle(cluster("B", 0.42), 200.0), "B0")[0]
    actor.handle(Received("B0", m.ClusterReply(request.session, Status.OK, "B")), 201.0)
    actor.handle(Received("B0", m.ClusterDone(request.session)), 210.0)  # nothing was moved
    local("A1", 0.5, 395.0, actor)
    assert sent(actor.handle(cluster("B", 0.42), 400.0), "B0") == []
    assert sent(actor.handle(cluster("C", 0.42), 401.0), "C0") != []
