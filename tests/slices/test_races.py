"""The two races of the printed order, message by message, and how the default order closes them.

DPSLB thesis, section 3.4: the taker becomes available before the giver's cache is there.
"""

from __future__ import annotations

from dataclasses import replace

from by_hand import SETTINGS, Node, action, item

from evenflow.slices.messages import Ack, Cargo, Confirm, Receipt
from evenflow.slices.session import Phase

LITERAL = replace(SETTINGS, order="literal", acks="receipt")  # with no more than what a transport promises


def pair(settings=SETTINGS) -> tuple[Node, Node]:
    return Node("A", settings).own(0), Node("B", settings)


def ship(a: Node, b: Node, now: float) -> None:
    (cargo,) = [m for m in a.get(action(Phase.SHIPPING), now) if isinstance(m, Cargo)]
    assert Receipt(2) in b.get(cargo, now + 0.01, sender="A")
    assert Confirm(2, 4) in a.get(Receipt(2), now + 0.02, sender="B")


def processed(*nodes: Node) -> list[int]:
    for node in nodes:
        if node.actor.pending:
            node.commit(9.0)
    return [i for node in nodes for i in node.seen.data]


class TestTwice:
    """An item is cached at the giver; its copy reaches the taker after that became available."""

    def test_printed_order(self):
        a, b = pair(LITERAL)
        a.get(action(Phase.STOPPING), 1.0)
        b.get(action(Phase.EXPECTING), 1.1)
        a.item(item(1), 1.2)  # published while both listen: the giver's copy is fast and is cached …
        a.get(action(Phase.REMOVING), 1.3)
        b.get(action(Phase.OPENING), 1.4)
        b.item(item(1), 1.5)  # … the taker's copy is slow, finds the slice available, and is processed
        ship(a, b, 1.6)  # and now the giver's cache brings it once more
        assert processed(a, b) == [item(1).id, item(1).id]

    def test_default_order(self):
        a, b = pair()
        a.get(action(Phase.STOPPING), 1.0)
        b.get(action(Phase.EXPECTING), 1.1)
        a.item(item(1), 1.2)
        a.get(action(Phase.REMOVING), 1.3)
        a.wake("drained", 1.4)
        ship(a, b, 1.5)
        b.get(action(Phase.OPENING), 1.6)
        b.item(item(1), 1.7)  # as late as one likes: the taker knows it from the giver's cache
        assert processed(a, b) == [item(1).id]
        assert b.item(item(1), 10.0) == [Ack((item(1).id,))]
        assert processed(a, b) == [item(1).id]

    def test_default_order_with_the_slow_copy_before_the_cargo(self):
        a, b = pair()
        a.get(action(Phase.STOPPING), 1.0)
        b.get(action(Phase.EXPECTING), 1.1)
        a.item(item(1), 1.2)
        a.get(action(Phase.REMOVING), 1.3)
        b.item(item(1), 1.35)  # not yet available: it is cached, and the merge removes it
        a.wake("drained", 1.4)
        ship(a, b, 1.5)
        b.get(action(Phase.OPENING), 1.6)
        assert processed(a, b) == [item(1).id]


class TestLost:
    """An item is published before the taker listens, and reaches the giver after that has stopped listening."""

    def test_printed_order(self):
        a, b = pair(LITERAL)
        a.get(action(Phase.STOPPING), 1.0)
        assert b.accepts == frozenset()  # the item is published now: the taker's filter keeps it away
        b.get(action(Phase.EXPECTING), 1.1)
        a.get(action(Phase.REMOVING), 1.2)
        late = 1.2 + SETTINGS.overlap_s + 0.01
        assert a.item(item(1), late) == [Ack((item(1).id,))]  # received, says the transport; the filter drops it
        b.get(action(Phase.OPENING), 1.3)
        ship(a, b, 1.4)
        assert processed(a, b) == []

    def test_default_order(self):
        a, b = pair()
        a.get(action(Phase.STOPPING), 1.0)
        b.get(action(Phase.EXPECTING), 1.1)
        assert a.get(action(Phase.REMOVING), 1.2) == []  # not confirmed: it listens on until everything has arrived
        late = 1.2 + SETTINGS.drain_s - 0.01
        assert a.item(item(1), late) == []
        assert Confirm(2, 3) in a.wake("drained", 1.2 + SETTINGS.drain_s)
        ship(a, b, 1.4)
        b.get(action(Phase.OPENING), 1.5)
        assert processed(a, b) == [item(1).id]

    def test_default_order_when_it_is_later_still(self):
        a, b = pair()
        a.get(action(Phase.STOPPING), 1.0)
        b.get(action(Phase.EXPECTING), 1.1)
        a.get(action(Phase.REMOVING), 1.2)
        a.wake("drained", 1.3)
        assert a.item(item(1), 2.0) == []  # dropped, but not acknowledged: its publisher keeps it
        ship(a, b, 2.1)
        b.get(action(Phase.OPENING), 2.2)
        assert processed(a, b) == []
        b.item(item(1), 3.0)  # and offers it again to whoever listens now
        assert processed(a, b) == [item(1).id]
