"""Results of listeners: each reaches its readers once, with several nodes and after restarts."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from alerting import Alert, Alerts, Reading, alerting, sensors, write

from evenflow.dds import plain
from evenflow.dds.collector import Collector, Wanted
from evenflow.dds.wire.idl import item_type
from evenflow.errors import BadInput


def collected(domain, tmp_path):
    """Return what a Spark source puts on disk of the alerts on the wire."""
    collector = Collector(Wanted("alerts", item_type(Alert), 0, tmp_path / "spark"))
    for topic, data in domain.on_wire:
        if topic == "alerts":
            collector.store([(data, None)])
    found = [row["sensor"] for table in collector.segments.rows() for row in table.to_pylist()]
    collector.stop()
    return Counter(found)


def test_the_results_of_several_nodes_all_arrive(domain, tmp_path, heard):
    domain.balancer(tmp_path)
    nodes = [alerting(domain, tmp_path, f"node-{i}") for i in range(3)]
    domain.pass_time(5)
    assert len([n for n in nodes if n.node.held]) == 3
    write(domain, range(120))
    domain.pass_time(1)
    assert sensors(heard) == Counter(range(120))
    assert {item.value["node"] for item in heard} == {"node-0", "node-1", "node-2"}
    assert collected(domain, tmp_path) == Counter(range(120))


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_node_that_starts_again_neither_loses_nor_repeats(domain, tmp_path, heard, how):
    domain.balancer(tmp_path)
    for life in range(4):
        node = alerting(domain, tmp_path, "node-0")
        domain.pass_time(5)
        write(domain, range(life * 30, life * 30 + 30))
        domain.pass_time(0.5)
        getattr(domain, how)(node)
    node = alerting(domain, tmp_path, "node-0")
    domain.pass_time(5)
    assert sensors(heard) == Counter(range(120))
    assert collected(domain, tmp_path) == Counter(range(120))


def test_what_was_committed_and_not_written_is_written_in_the_next_life(domain, tmp_path, heard):
    """The node dies between the commit and the write: the readers are full at that moment."""
    domain.balancer(tmp_path)
    node = alerting(domain, tmp_path, "node-0")
    domain.pass_time(5)
    write(domain, range(10))
    domain.pass_time(0.5)
    domain.full.add("alerts")
    write(domain, range(10, 30))
    domain.pass_time(0.5)
    assert node.results.unwritten == 20
    assert sum(h.state["readings"] for h in node.node.held.values()) == 30  # all of it is committed
    domain.kill(node)
    domain.full.clear()
    domain.connected = False  # the new life's writers look for readers first: what is written before is lost
    node = alerting(domain, tmp_path, "node-0")
    domain.pass_time(1)
    assert len(heard) == 10
    domain.connected = True
    domain.pass_time(5)
    assert sensors(heard) == Counter(range(30))
    assert collected(domain, tmp_path) == Counter(range(30))


def test_what_was_written_and_not_received_is_written_again_under_its_id(domain, tmp_path, heard):
    domain.balancer(tmp_path)
    node = alerting(domain, tmp_path, "node-0")
    domain.pass_time(5)
    domain.receiving = False
    write(domain, range(10))
    domain.pass_time(0.5)
    domain.kill(node)
    before = len(domain.on_wire)
    domain.receiving = True
    node = alerting(domain, tmp_path, "node-0")
    domain.pass_time(5)
    assert sum(topic == "alerts" for topic, _ in domain.on_wire[before:]) == 10
    assert sensors(heard) == Counter(range(10))  # the subscriber had them: it knows their ids
    assert collected(domain, tmp_path) == Counter(range(10))
    domain.pass_time(2)
    domain.kill(node)
    before = len(domain.on_wire)
    alerting(domain, tmp_path, "node-0")
    domain.pass_time(5)
    assert not any(topic == "alerts" for topic, _ in domain.on_wire[before:])  # every reader had them: forgotten


def test_a_full_reader_delays_results_and_loses_none(domain, tmp_path, heard):
    domain.balancer(tmp_path)
    alerting(domain, tmp_path, "node-0")
    domain.pass_time(5)
    domain.full.add("alerts")
    write(domain, range(20))
    domain.pass_time(1)
    assert not heard
    domain.full.clear()
    domain.pass_time(1)
    assert [item.value["sensor"] for item in heard] == list(range(20))
    assert sensors(heard) == Counter(range(20))


def test_what_a_source_remembers_of_results_does_not_grow(domain, tmp_path):
    domain.balancer(tmp_path)
    alerting(domain, tmp_path, "node-0")
    domain.pass_time(5)
    write(domain, range(300))
    domain.pass_time(1)
    collector = Collector(Wanted("alerts", item_type(Alert), 0, tmp_path / "spark"))
    collector.store([(data, None) for topic, data in domain.on_wire if topic == "alerts"])
    assert collector.end() == 300
    assert len(collector._memory.ledger) <= 1
    collector.stop()


def test_results_of_a_topic_that_is_not_balanced_leave_at_once(domain, tmp_path, heard):
    nodes = [alerting(domain, tmp_path, f"node-{i}", balance=False) for i in range(2)]
    domain.pass_time(1)
    write(domain, range(20))
    domain.pass_time(0.1)
    assert sensors(heard) == Counter(dict.fromkeys(range(20), 2))  # every node sees every item
    write(domain, range(20))  # written again by a publisher that heard nothing
    domain.pass_time(0.1)
    assert [len(n.node.topics["readings"].listener.seen) for n in nodes] == [20, 20]
    domain.kill(nodes[0])
    again = alerting(domain, tmp_path, "node-0", balance=False)
    domain.pass_time(1)
    write(domain, range(20, 40))
    domain.pass_time(0.1)
    assert sensors(heard) == Counter(dict.fromkeys(range(40), 2))  # the ids of the new life are not those of the old
    assert len(again.node.topics["readings"].listener.seen) == 20


def test_committed_items_of_a_topic_that_is_not_balanced_are_acknowledged(domain, tmp_path):
    alerting(domain, tmp_path, "node-0", balance=False)
    alerting(domain, tmp_path, "node-1", balance=False)

    def schedule():
        for n in range(20):
            yield plain.Due(time.time(), 0, topic="readings", value={"sensor": n, "temperature": 0.0})

    writers = plain.WritersProcess({5: schedule()}, {"readings": Reading}, 0, None, items=None, patience_s=5.0)
    domain.begin(writers)
    domain.pass_time(3)
    assert writers.process.stopping
    assert (writers.publishers[5].written, writers.publishers[5].unacknowledged) == (20, 0)


def test_a_result_that_cannot_travel_is_refused_before_the_commit(domain, tmp_path):
    class Wrong(Alerts):
        def on_data(self, item, state):
            self.publish("alerts", Alert("seven", "x"))

    domain.balancer(tmp_path)
    domain.node(tmp_path, "n", Wrong("n"), Reading, {"alerts": Alert})
    domain.pass_time(2)
    write(domain, [1])
    with pytest.raises(BadInput, match=r"publish to 'alerts'.*'seven'"):
        domain.pass_time(1)
