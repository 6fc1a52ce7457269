"""A processing node shows each item to the right listener, once, and acknowledges it when its effect is durable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from by_hand import SETTINGS, Hand, Node, Seen, action, item

from evenflow.actor import Note, Save, Send, Wake, Woken
from evenflow.errors import BadInput
from evenflow.measure import Condition, Monitor
from evenflow.slices.ledger import Ledger, item_id
from evenflow.slices.messages import Ack, Cargo, Confirm, Leave, Notification, Parcel, Receipt
from evenflow.slices.publisher import Due, Publish, Publisher
from evenflow.slices.session import Phase
from evenflow.slices.topics import Topic

FOREIGN = 3


class TestWhereTheFilterSits:
    def test_reader_keeps_foreign_items_away(self):
        node = Node(settings=replace(SETTINGS, filter="reader"))
        assert node.accepts == frozenset()
        node.own(0, 1)
        assert node.accepts == {0, 1}
        node.item(item(1, 0))
        node.item(item(2, FOREIGN))
        node.commit()
        assert node.seen.data == [item(1).id]
        assert node.seen.correlating == []

    def test_node_shows_foreign_items_as_correlating_data(self):
        node = Node(settings=replace(SETTINGS, filter="node")).own(0, 1)
        assert node.accepts is None  # everything arrives
        node.item(item(1, 0))
        assert node.item(item(2, FOREIGN)) == []  # and is not acknowledged: it is another node's
        node.commit()
        assert node.seen.data == [item(1).id]
        assert node.seen.correlating == [item(2).id]

    @pytest.mark.parametrize("where", ["reader", "node"])
    def test_an_item_in_session_is_cached_and_shown_to_nobody(self, where):
        node = Node(settings=replace(SETTINGS, filter=where)).own(0)
        node.get(action(Phase.STOPPING))
        assert node.item(item(1)) == []
        assert node.seen.data == node.seen.correlating == []
        assert list(node.actor.held[0].cache) == [item(1).id]

    def test_what_was_shipped_is_correlating_data(self):
        node = Node(settings=replace(SETTINGS, filter="node")).own(0)
        for phase in (Phase.STOPPING, Phase.EXPECTING, Phase.REMOVING):
            node.get(action(phase))
        node.wake("drained", 0.1)
        node.get(action(Phase.SHIPPING))
        node.item(item(1))
        assert node.seen.correlating == [item(1).id]


class TestTopics:
    @pytest.mark.parametrize("where", ["reader", "node"])
    def test_a_topic_that_is_not_balanced_goes_to_every_node(self, where):
        seen = Seen()
        node = Node(settings=replace(SETTINGS, filter=where), topics=[Topic("news", seen, balance=False)])
        assert node.item(item(1, FOREIGN, "news")) == []  # at once, without a slice, without an acknowledgement
        assert seen.data == [item(1).id]
        assert seen.correlating == []
        assert "slice/3" not in node.saved

    def test_a_topic_nobody_listens_to_is_ignored(self):
        node = Node().own(0)
        assert node.item(item(1, 0, "other")) == []
        assert node.seen.data == []

    @pytest.mark.parametrize("where", ["reader", "node"])
    def test_a_content_filter_is_anded_with_the_slice_filter(self, where):
        seen = Seen()
        topic = Topic.filtered("data", seen, "temperature > %0 AND place = 'roof'", ["30"])
        node = Node(settings=replace(SETTINGS, filter=where), topics=[topic]).own(0)
        hot, cold = {"temperature": 31, "place": "roof"}, {"temperature": 30, "place": "roof"}
        node.item(item(1, 0, value=hot))
        node.item(item(2, 0, value=cold))
        node.item(item(3, FOREIGN, value=hot))
        node.item(item(4, FOREIGN, value=cold))
        node.item(item(5, 0))  # no value, nothing to test
        node.commit()
        assert seen.data == [item(1).id]
        assert seen.correlating == ([item(3).id] if where == "node" else [])

    def test_an_item_that_the_filter_rejects_is_settled_by_the_owner(self):
        # nobody will ever process it: without an acknowledgement its publisher would offer it for ever
        topic = Topic.filtered("data", Seen(), "temperature > 30")
        node = Node(topics=[topic]).own(0)
        cold = item(1, 0, value={"temperature": 20})
        assert node.item(cold) == [Ack((cold.id,))]
        foreign = item(2, FOREIGN, value={"temperature": 20})
        assert node.item(foreign) == []  # that is for its own owner to say
        node.get(action(Phase.STOPPING))
        assert node.item(cold) == []  # in session there is no owner; it will be offered again

    def test_a_filter_must_be_a_condition(self):
        with pytest.raises(BadInput, match="filter of topic 'data'"):
            Topic.filtered("data", Seen(), "temperature + 1")

    def test_one_slice_caches_items_of_several_topics_each_for_its_listener(self):
        seen = {"heat": Seen(), "light": Seen()}
        topics = [Topic(name, listener) for name, listener in seen.items()]
        a, b = Node("A", topics=topics).own(0), Node("B", topics=topics)
        a.item(item(1, 0, "heat"))
        a.commit()
        a.get(action(Phase.STOPPING))
        a.item(item(2, 0, "light"))
        a.item(item(3, 0, "heat"))
        hand_over(a, b)
        assert b.state(0, "heat") == [item(1).id, item(3).id]
        assert b.state(0, "light") == [item(2).id]
        assert seen["heat"].data == [item(1).id, item(3).id]
        assert seen["light"].data == [item(2).id]


def hand_over(a: Node, b: Node, *, expected: bool = False) -> None:
    """Carry the rest of a session through in fair weather, in the default order; A holds the slice already."""
    if not expected:
        b.get(action(Phase.EXPECTING))
    a.get(action(Phase.REMOVING))
    assert Confirm(2, 3) in a.wake("drained", 0.1)
    (cargo,) = a.get(action(Phase.SHIPPING))
    assert isinstance(cargo, Cargo)
    (receipt,) = b.get(cargo, sender="A")
    assert receipt == Receipt(2)
    assert Confirm(2, 4) in a.get(receipt, sender="B")
    b.get(action(Phase.OPENING))
    if b.actor.pending:
        b.commit()


class TestTheSession:
    def test_the_merged_cache_has_no_duplicates_and_loses_nothing(self):
        a, b = Node("A").own(0), Node("B")
        a.get(action(Phase.STOPPING))
        b.get(action(Phase.EXPECTING))
        for number in (1, 2):
            a.item(item(number))
        for number in (2, 3):
            b.item(item(number))
        hand_over(a, b, expected=True)
        assert a.seen.data == []
        assert b.seen.data == [item(n).id for n in (1, 2, 3)]
        (merge,) = b.noted("merge")
        assert (merge["giver_items"], merge["items"]) == (2, 3)

    def test_what_the_giver_has_processed_is_not_processed_again_by_the_taker(self):
        a, b = Node("A").own(0), Node("B")
        a.item(item(1))
        a.commit()
        a.get(action(Phase.STOPPING))
        b.get(action(Phase.EXPECTING))
        b.item(item(1))  # the acknowledgement was lost and the publisher offers it again
        hand_over(a, b, expected=True)
        assert b.seen.data == []
        assert b.state() == [item(1).id]
        assert b.item(item(1)) == [Ack((item(1).id,))]

    def test_what_the_giver_has_taken_but_not_committed_goes_to_the_taker(self):
        a, b = Node("A").own(0), Node("B")
        a.item(item(1))
        a.get(action(Phase.STOPPING))  # before the commit
        assert a.wake("tick", 0.05) == []
        hand_over(a, b)
        assert a.seen.data == []
        assert b.seen.data == [item(1).id]

    def test_what_it_has_taken_of_other_slices_is_processed(self):
        node = Node().own(0, 1)
        node.item(item(1, 0))
        node.item(item(2, 1))
        node.get(action(Phase.STOPPING, (0,)))
        node.commit()
        assert node.seen.data == [item(2).id]
        assert list(node.actor.held[0].cache) == [item(1).id]

    def test_the_application_state_travels(self):
        a, b = Node("A").own(0), Node("B")
        for number in (1, 2):
            a.item(item(number))
        a.commit()
        a.get(action(Phase.STOPPING))
        a.item(item(3))
        hand_over(a, b)
        assert b.state() == [item(n).id for n in (1, 2, 3)]
        assert b.seen.data == [item(3).id]  # the first two came with the state
        assert "slice/0" not in a.saved  # and the giver has forgotten it

    def test_a_session_is_about_a_whole_collection(self):
        a, b = Node("A").own(0, 1, 2), Node("B")
        both = (0, 2)
        a.get(action(Phase.STOPPING, both))
        for s in (0, 1, 2):
            a.item(item(10 + s, s))
        a.commit()
        b.get(action(Phase.EXPECTING, both))
        a.get(action(Phase.REMOVING, both))
        a.wake("drained", 0.1)
        (cargo,) = a.get(action(Phase.SHIPPING, both))
        assert sorted(cargo.parcels) == [0, 2]
        b.get(cargo, sender="A")
        b.get(action(Phase.OPENING, both))
        b.commit()
        assert a.seen.data == [item(11).id]
        assert b.seen.data == [item(10).id, item(12).id]

    def test_a_collection_that_cannot_move_as_a_whole_does_not_move_at_all(self):
        node = Node().own(0)
        (refused,) = node.get(action(Phase.STOPPING, (0, 1)))
        assert refused.outcome == "refused"
        assert "absent" in refused.why
        assert node.noted("owner")[-1]["owns"]  # slice 0 was not touched
        node.item(item(1))
        node.commit()
        assert node.seen.data == [item(1).id]

    def test_an_action_that_comes_twice_is_confirmed_twice_and_done_once(self):
        node = Node().own(0)
        assert node.get(action(Phase.STOPPING)) == node.get(action(Phase.STOPPING)) == [Confirm(2, 1)]
        assert len(node.noted("owner")) == 2  # granted, stopped

    def test_a_straggler_of_an_ended_session_finds_no_one(self):
        node = Node().own(0)
        node.get(action(Phase.STOPPING, session=5, over=5))
        assert node.get(action(Phase.STOPPING, session=2)) == []

    def test_a_cargo_that_nobody_waits_for_is_left_alone(self):
        node = Node("B")
        parcels = {0: Parcel({}, Ledger(), ())}
        assert node.get(Cargo(7, parcels), sender="A") == []
        assert "slice/0" not in node.saved

    def test_cargo_is_shipped_until_there_is_a_receipt_also_after_a_crash(self):
        a = Node("A").own(0)
        a.item(item(1))
        a.commit()
        a.get(action(Phase.STOPPING))
        a.get(action(Phase.REMOVING))
        a.wake("drained", 0.1)
        (cargo,) = a.get(action(Phase.SHIPPING), 0.2)
        (again,) = a.wake("ship", 0.5)
        assert again.parcels.keys() == cargo.parcels.keys()
        a.start(1.0)
        (after,) = [m for m in a.wake("ship", 1.0) if isinstance(m, Cargo)]
        assert after.parcels[0].state == {"data": [item(1).id]}
        assert a.get(Receipt(2), 1.1, sender="B") == [Confirm(2, 4)]
        assert a.wake("ship", 1.3) == []


class TestTwoReaders:
    """Section 3.5: a filter cannot be changed, so a second reader overlaps the first."""

    def test_the_old_reader_stays_open_for_the_overlap(self):
        node = Node().own(0, 1, now=1.0)
        node.get(action(Phase.STOPPING, (1,)), 2.0)
        node.get(action(Phase.REMOVING, (1,)), 2.0)
        node.wake("drained", 2.1)
        readers = node.actor.readers
        assert readers.slices == {0}
        assert (readers.copies(0, 2.12), readers.copies(1, 2.12)) == (2, 1)
        assert (readers.copies(0, 2.2), readers.copies(1, 2.2)) == (1, 0)
        assert node.accepts == {0, 1}
        node.wake("reader", 1.05)
        node.wake("reader", 2.15)
        assert node.accepts == {0}

    @pytest.mark.parametrize("committed", [False, True])
    def test_what_both_readers_bring_is_processed_once(self, committed):
        node = Node().own(0, now=1.0)
        node.get(action(Phase.EXPECTING, (1,)), 2.0)  # another slice is added: a second reader opens
        copies = node.actor.readers.copies(0, 2.01)
        assert copies == 2
        for _ in range(copies):
            node.item(item(1), 2.01)
            if committed:
                node.commit(2.02) if node.actor.pending else None
        if not committed:
            node.commit(2.06)
        assert node.seen.data == [item(1).id]

    def test_what_both_readers_bring_is_cached_once(self):
        node = Node().own(0, now=1.0)
        node.get(action(Phase.EXPECTING, (1,)), 2.0)
        node.get(action(Phase.STOPPING, (0,), session=3), 2.0)
        for _ in range(node.actor.readers.copies(0, 2.01)):
            node.item(item(1), 2.01)
        assert len(node.actor.held[0].cache) == 1


class TestCommit:
    def test_an_item_is_acknowledged_after_its_effect_is_durable(self):
        node = Node().own(0)
        assert node.item(item(1)) == []
        commands = node.actor.handle(Woken("tick"), 0.05)
        kinds = [type(c) for c in commands]
        assert kinds.index(Save) < kinds.index(Note) < kinds.index(Send)
        (save,) = [c for c in commands if isinstance(c, Save)]
        (ack,) = [c for c in commands if isinstance(c, Send)]
        _, _, state, ledger = save.values["slice/0"]
        assert state == {"data": [item(1).id]}
        assert item(1).id in ledger
        assert ack == Send("publisher-0", Ack((item(1).id,)))

    def test_one_commit_is_due_at_a_time_and_none_without_items(self):
        node = Node().own(0)
        node.item(item(1))
        node.item(item(2))
        assert [w.name for w in node.wakes].count("tick") == 1
        node.commit()
        assert [w.name for w in node.wakes].count("tick") == 0
        assert node.seen.data == [item(1).id, item(2).id]

    def test_what_its_publisher_has_settled_is_remembered_by_a_mark(self):
        node = Node().own(0)
        for number in range(20):
            node.item(item(number, settled=max(0, number - 2)))
        node.commit()
        ledger = node.actor.held[0].ledger
        assert len(ledger) == 3
        assert all(item(number).id in ledger for number in range(20))

    def test_with_receipts_it_is_acknowledged_on_arrival(self):
        node = Node(settings=replace(SETTINGS, acks="receipt")).own(0)
        assert node.item(item(1)) == [Ack((item(1).id,))]
        assert node.commit() == []

    def test_a_crash_before_the_commit_loses_the_effect_and_the_publisher_offers_again(self):
        publisher = Hand(lambda: Publisher(0, iter([Due(0.1, 0)]), retry_s=1.0))
        node = Node().own(0)
        (written,) = published(publisher, "write", 0.1)
        node.item(written, 0.1)
        node.start(0.12)  # crash
        assert node.actor.pending == {}
        assert published(publisher, "again", 1.0) == []  # not yet: it is 0.9 s old
        (again,) = published(publisher, "again", 2.0)
        assert again.id == written.id
        node.item(again, 2.0)
        (ack,) = node.commit(2.05)
        assert node.state() == [written.id]
        publisher.get(ack, 2.06)
        assert publisher.actor.unacknowledged == 0
        assert published(publisher, "again", 3.0) == []

    def test_a_crash_after_the_commit_repeats_the_acknowledgement_and_not_the_effect(self):
        node = Node().own(0)
        node.item(item(1))
        node.commit()
        node.start(1.0)
        assert node.item(item(1), 1.1) == [Ack((item(1).id,))]
        assert node.state() == [item(1).id]
        assert node.seen.data == [item(1).id]

    def test_a_node_does_no_more_than_its_speed_allows(self):
        node = Node(settings=replace(SETTINGS, speed=100.0, commit_s=0.05)).own(0)  # five cost units per commit
        for number in range(12):
            node.item(item(number))
        counts = []
        for tick in range(3):
            node.commit(0.05 * (tick + 1))
            counts.append(len(node.seen.data))
        assert counts == [5, 10, 12]

    def test_a_costly_item_takes_the_time_of_the_following_ones(self):
        node = Node(settings=replace(SETTINGS, speed=100.0, commit_s=0.05)).own(0)
        node.item(item(0, cost=9.0))
        for number in range(1, 4):
            node.item(item(number))
        node.commit(0.05)
        assert len(node.seen.data) == 1  # nine units in a tick of five: four of the next tick's are spent
        node.commit(0.1)
        assert len(node.seen.data) == 2


def published(publisher: Hand, name: str, now: float) -> list:
    """Fire a publisher's wake-up and return the items that it writes."""
    return [c.item for c in publisher.actor.handle(Woken(name), now) if isinstance(c, Publish)]


class TestMonitoring:
    def samples(self, node: Node, seconds: float, cost: float = 1.0) -> list[tuple[float, Notification]]:
        """Let an item of cost 1 arrive every 0.1 s; return what the node says and when."""
        heard = []
        for tenth in range(1, round(seconds * 10) + 1):
            now = tenth / 10
            node.item(item(tenth, 0, cost=cost), now)
            node.commit(now)
            if any(w.name == "monitor" and w.at <= now for w in node.wakes):
                heard += [(now, m) for m in node.wake("monitor", now)]
        return heard

    def test_every_two_seconds_with_all_properties(self):
        node = Node(settings=replace(SETTINGS, speed=20.0)).own(0, 1)
        heard = self.samples(node, 6.5)
        assert [at for at, _ in heard] == [2.0, 4.0, 6.0]
        last = heard[-1][1]
        assert last.properties == {"cpu": pytest.approx(50.0), "memory": 0.0, "queue": 0.0, "slices": 2.0}
        assert last.slice_loads == {0: pytest.approx(10.0), 1: 0.0}  # cost units per second
        assert last.capacity == 20.0
        assert last.slice_count == SETTINGS.slices

    def test_the_period_can_be_set(self):
        node = Node(settings=replace(SETTINGS, monitor_s=0.5)).own(0)
        assert [at for at, _ in self.samples(node, 2.0)] == [0.5, 1.0, 1.5, 2.0]

    def test_a_node_says_when_it_joins(self):
        node = Node()
        (joined,) = [c.message for c in node.sent]
        assert joined.why == "joined"
        assert node.sent[0].to == "balancer"

    def test_queue_and_memory_count_what_waits(self):
        node = Node().own(0, 1)
        node.get(action(Phase.STOPPING, (1,)))
        for number, slice_id in enumerate([0, 0, 1]):
            node.item(item(number, slice_id))
        (sample,) = node.wake("monitor", 2.0)
        assert sample.properties == {"cpu": 0.0, "memory": 3.0, "queue": 2.0, "slices": 1.0}

    def test_after_a_restart_it_measures_from_there(self):
        node = Node().own(0)
        node.start(100.0)
        node.item(item(1), 101.0)
        (first,) = node.wake("monitor", 102.0)
        assert first.slice_loads == {0: 0.5}

    def test_part_of_a_period_measures_nothing(self):
        node = Node()
        node.own(0, now=1.0)
        node.item(item(1), 1.5)
        (first,) = node.wake("monitor", 2.0)
        assert first.slice_loads == {}
        node.item(item(2), 2.5)
        (second,) = node.wake("monitor", 4.0)
        assert second.slice_loads == {0: 0.5}

    def test_a_change_of_range_and_a_condition_that_holds_cause_notifications_with_all_data(self):
        monitor = Monitor(ranges={"cpu": [0, 30, 70, 100]}, conditions=[Condition("cpu > 70", for_s=4)])
        quiet = replace(SETTINGS, commit_s=0.1, speed=12.5, notify="events")
        node = Node(settings=quiet, monitor=monitor).own(0)
        heard = self.samples(node, 10.0)  # 80 % CPU throughout
        assert [(at, m.why) for at, m in heard] == [(2.0, "cpu.range"), (6.0, "cpu > 70")]
        for _, message in heard:
            assert message.properties == {"cpu": pytest.approx(80.0), "memory": 0.0, "queue": 0.0, "slices": 1.0}
            assert message.slice_loads == {0: pytest.approx(10.0)}

    def test_one_sample_is_one_notification_whatever_happened(self):
        # the balancer learns loads from notifications: the same sample twice would look like a jump
        monitor = Monitor(ranges={"cpu": [0, 30, 70, 100]}, conditions=[Condition("cpu > 70")])
        node = Node(settings=replace(SETTINGS, commit_s=0.1, speed=12.5), monitor=monitor).own(0)
        heard = self.samples(node, 4.0)
        assert [(at, m.why) for at, m in heard] == [(2.0, "cpu.range, cpu > 70"), (4.0, "sample")]

    def test_a_node_that_leaves_is_silent(self):
        node = Node()
        node.get(Leave())
        assert node.wake("monitor", 2.0) == []
        assert not [w for w in node.wakes if w.name == "monitor"]
        assert node.noted("node")[-1]["step"] == "left"

    def test_an_experiment_may_measure_for_the_node(self):
        asked = []

        def meter(slices, since, now):
            asked.append((slices, since, now))
            return dict.fromkeys(slices, 8.0)

        node = Node(settings=replace(SETTINGS, speed=10.0), meter=meter).own(0, 2)
        (sample,) = node.wake("monitor", 2.0)
        assert asked == [([0, 2], 0.0, 2.0)]
        assert sample.slice_loads == {0: 4.0, 2: 4.0}
        assert sample.properties["cpu"] == pytest.approx(80.0)


class TestPublisher:
    def test_the_mark_says_up_to_where_everything_is_settled(self):
        due = [Due(0.1 * n, 0) for n in range(1, 5)]
        publisher = Hand(lambda: Publisher(7, iter(due)))
        items = [published(publisher, "write", d.at)[0] for d in due[:3]]
        assert [i.settled for i in items] == [0, 0, 0]
        publisher.get(Ack((items[0].id, items[2].id)))
        (last,) = published(publisher, "write", 0.4)
        assert last.settled == 1  # number 1 is still open
        assert publisher.actor.unacknowledged == 2
        assert last.id == item_id(7, 3)

    def test_what_is_not_kept_is_not_offered_again(self):
        publisher = Hand(lambda: Publisher(0, iter([Due(0.1, 0, topic="news", keep=False)]), retry_s=1.0))
        assert len(published(publisher, "write", 0.1)) == 1
        assert publisher.actor.unacknowledged == 0
        assert published(publisher, "again", 5.0) == []
        assert publisher.noted("publish") == []

    def test_it_ends_with_its_schedule(self):
        publisher = Hand(lambda: Publisher(0, iter([])))
        assert [w for w in publisher.wakes if w.name == "write"] == []
        assert publisher.wakes == [Wake(1.0, "again")]


class TestLedger:
    def test_below_the_mark_everything_counts_as_processed_and_costs_nothing(self):
        ledger = Ledger()
        for number in range(100):
            ledger.add(item_id(3, number))
        ledger.add(item_id(4, 5))
        ledger.settle(3, 90)
        assert len(ledger) == 11
        assert item_id(3, 0) in ledger
        assert item_id(3, 95) in ledger
        assert item_id(3, 100) not in ledger
        assert item_id(4, 4) not in ledger
        ledger.settle(3, 50)  # an older mark, out of order
        assert item_id(3, 89) in ledger

    def test_a_merge_knows_what_either_knew(self):
        one, other = Ledger({1: 10}, [item_id(1, 12)]), Ledger({1: 11, 2: 3}, [item_id(2, 7)])
        one.merge(other)
        known = [item_id(1, 10), item_id(1, 12), item_id(2, 2), item_id(2, 7)]
        assert all(i in one for i in known)
        assert item_id(1, 11) not in one

    def test_a_copy_shares_nothing(self):
        ledger = Ledger()
        other = ledger.copy()
        other.add(1)
        other.settle(2, 5)
        assert 1 not in ledger
        assert item_id(2, 0) not in ledger
