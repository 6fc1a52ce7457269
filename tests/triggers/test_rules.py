"""The published rules by hand: estimate, groups, Algorithm 1, tunder; and the policies beside them."""

from __future__ import annotations

import random

import pytest

from evenflow.errors import BadInput
from evenflow.triggers.estimate import LinePerType, MeanPerType
from evenflow.triggers.grouping import deal, form_groups, trigroup_from
from evenflow.triggers.policies import AskWhenIdle, Dlber, FillToMean, NoBalancing, WorkerLoad, policy_named
from evenflow.triggers.settings import BalancerSettings, WorkerSettings
from evenflow.triggers.waiting import Invocation, Waiting


def taught(times: dict[str, list[float]]) -> MeanPerType:
    estimate = MeanPerType()
    for trigger, seconds in times.items():
        for second in seconds:
            estimate.learn(trigger, 0, second)
    return estimate


def queue(*triggers: str, coalesce: bool = True) -> Waiting:
    waiting = Waiting(coalesce)
    for key, trigger in enumerate(triggers):
        waiting.add(Invocation(trigger, key))
    return waiting


def test_the_workload_is_the_sum_of_the_mean_times_of_what_waits():
    estimate = taught({"a": [0.1, 0.3], "b": [1.0]})
    assert queue("a", "a", "b", "c").load(estimate) == pytest.approx(2 * 0.2 + 1.0 + 0.1)  # c: not seen yet


def test_the_mean_is_recalculated_as_triggers_complete():
    estimate = taught({"a": [0.1]})
    waiting = queue("a", "a")
    estimate.learn("a", 0, 0.5)
    assert waiting.load(estimate) == pytest.approx(0.6)
    waiting.pop()
    assert waiting.load(estimate) == pytest.approx(0.3)


def test_a_line_knows_hubs():
    estimate = LinePerType()
    for size in (1, 2, 3, 50):
        estimate.learn("sum", size, 0.05 + 0.01 * size)
    waiting = Waiting()
    waiting.add(Invocation("sum", "hub", 800.0))
    waiting.add(Invocation("sum", "leaf", 1.0))
    assert waiting.load(estimate) == pytest.approx(8.05 + 0.06)
    ((work, group),) = form_groups(waiting, estimate, 1.0, 0.5, count=1)
    assert ([i.key for i in group], work) == (["hub"], pytest.approx(8.05))


def test_a_line_never_predicts_less_than_nothing():
    estimate = LinePerType()
    estimate.learn("sum", 10, 0.1)
    estimate.learn("sum", 20, 0.5)
    at_zero, slope = estimate.line("sum")
    assert at_zero >= 0
    assert slope > 0


def test_groups_come_in_descending_order_up_to_trigroup():
    estimate = taught({"short": [0.25], "long": [0.6]})
    waiting = queue("short", "long", "short", "long", "short", "short", "short")
    groups = form_groups(waiting, estimate, 1.0, 0, count=2)
    assert [[i.key for i in group] for _, group in groups] == [[1], [3, 0]]  # 0.6 + 0.25 fits, one more does not
    assert [i.key for i in waiting.items.values()] == [2, 4, 5, 6]


def test_one_trigger_longer_than_trigroup_is_a_group():
    estimate = taught({"long": [3.0]})
    assert len(form_groups(queue("long", "long"), estimate, 1.0, 0, count=1)[0][1]) == 1


def test_a_share_of_a_short_queue_is_not_a_whole_group():
    estimate = taught({"a": [0.1]})
    waiting = queue(*"aaaa")
    form_groups(waiting, estimate, 1.0, 0.2)
    assert len(waiting) == 2


def test_what_was_taken_and_run_in_between_is_not_taken_twice():
    estimate = taught({"a": [0.5]})
    waiting = queue(*"aaaaaa")
    first = form_groups(waiting, estimate, 1.0, 1.0)
    waiting.pop()
    second = form_groups(waiting, estimate, 1.0, 1.0)
    keys = [i.key for _, group in first + second for i in group]
    assert sorted(keys) == sorted(set(keys))
    assert len(keys) + len(waiting) == 5


def test_borrowed_ones_last():
    estimate = taught({"a": [0.5]})
    waiting = Waiting()
    waiting.add(Invocation("a", 1, home="x", lease=1))
    waiting.add(Invocation("a", 2))
    ((_, group),) = deal(waiting, estimate, 0.5)
    assert [i.key for i in group] == [2]
    ((_, group),) = deal(waiting, estimate, 1.0)
    assert [i.home for i in group] == ["x"]


def test_who_shares_a_queue_goes_on_in_its_order():
    estimate = taught({"a": [0.5]})
    waiting = queue(*"aaaaaaaa")
    ((work, group),) = deal(waiting, estimate, 0.5, after=0.25)
    assert [i.key for i in group] == [2, 4, 6]  # the taker is busy while the first two run
    assert [i.key for i in waiting.items.values()] == [0, 1, 3, 5, 7]
    assert work == pytest.approx(1.5)
    assert deal(Waiting(), estimate, 0.5) == []


@pytest.mark.parametrize(("coalesce", "length"), [(True, 1), (False, 2)])
def test_coalescing(coalesce, length):
    waiting = Waiting(coalesce)
    waiting.add(Invocation("a", 1))
    assert waiting.add(Invocation("a", 1)) is not coalesce
    waiting.add(Invocation("a", 1, home="other", lease=4))  # of another worker's row
    assert len(waiting) == length + 1


def test_trigroup_from_capacity_and_bandwidth():
    slow, fast = (trigroup_from(0.005, 0.0005, 0.1, speed, 0.02) for speed in (1.0, 2.0))
    for trigroup, mean in ((slow, 0.1), (fast, 0.05)):
        assert 0.005 + trigroup / mean * 0.0005 == pytest.approx(0.02 * trigroup)
    assert fast > slow  # a faster worker is done sooner, so the message must be worth more
    with pytest.raises(BadInput, match=r"more than 0\.005"):
        trigroup_from(0.005, 0.0005, 0.1, 1.0, 0.004)


def algorithm_1(loads: dict[str, float], tunder: float, trigroup: float) -> list[tuple[str, str]]:
    """The printed loop, word by word, with loads that change."""
    fetched = []
    while True:
        a_list = sorted(loads, key=lambda w: (-loads[w], w))
        a, n = a_list[0], min(loads, key=lambda w: (loads[w], w))
        if not loads[n] < tunder:
            return fetched
        if not (loads[a] > tunder and loads[a] - trigroup > loads[n] + trigroup):
            return fetched
        fetched.append((a, n))
        loads[a] -= trigroup
        loads[n] += trigroup


@pytest.mark.parametrize("seed", range(20))
def test_algorithm_1_is_the_printed_loop(seed):
    chance = random.Random(seed)
    loads = {f"w{i}": chance.choice([0.0, 2.5, chance.uniform(0, 40)]) for i in range(chance.randint(1, 12))}
    transfers = Dlber(5.5).decide([WorkerLoad(w, load) for w, load in loads.items()])
    fetched = algorithm_1(dict(loads), 5.5, 1.0)
    assert {(t.giver, t.taker): t.groups for t in transfers} == {pair: fetched.count(pair) for pair in set(fetched)}


def test_algorithm_1_leaves_busy_workers_alone():
    assert Dlber(5.5).decide([WorkerLoad("a", 90.0), WorkerLoad("b", 5.5)]) == []
    assert Dlber(5.5).decide([WorkerLoad("a", 5.5), WorkerLoad("b", 0.0)]) == []
    assert Dlber(5.5).decide([WorkerLoad("a", 6.0), WorkerLoad("b", 4.0)]) == []  # the two would only change places


def test_speeds_count():
    (transfer,) = Dlber(5.5).decide([WorkerLoad("a", 12.0, speed=1.0), WorkerLoad("b", 4.0, speed=0.25)])
    assert transfer.groups == 1  # one group of a is four seconds of b
    (transfer,) = FillToMean().decide([WorkerLoad("a", 9.0, speed=1.0), WorkerLoad("b", 0.0, speed=2.0)])
    assert transfer.seconds == pytest.approx(6.0)  # then 3 s each


@pytest.mark.parametrize("seed", range(10))
def test_fill_to_mean_fills_to_the_mean(seed):
    chance = random.Random(seed)
    workers = [WorkerLoad(f"w{i}", chance.uniform(0, 40), speed=chance.uniform(0.5, 2)) for i in range(9)]
    work = {w.id: w.load_s * w.speed for w in workers}
    speed = {w.id: w.speed for w in workers}
    transfers = FillToMean().decide(workers)
    for t in transfers:
        work[t.giver] -= t.seconds * speed[t.giver]
        work[t.taker] += t.seconds * speed[t.giver]
    mean = sum(work.values()) / sum(speed.values())
    assert [work[w] / speed[w] for w in work] == pytest.approx([mean] * 9)
    assert len(transfers) < 9


def test_who_asks_gets_half_of_the_fullest_queue():
    workers = [WorkerLoad("a", 8.0), WorkerLoad("b", 0.0, asking=True), WorkerLoad("c", 0.0, asking=True)]
    transfers = AskWhenIdle().decide(workers)
    assert [(t.giver, t.taker, t.seconds) for t in transfers] == [("a", "b", 4.0), ("a", "c", 2.0)]
    assert AskWhenIdle(least_s=10.0).decide(workers) == []
    assert NoBalancing().decide(workers) == []


def test_nobody_gives_what_has_not_come_or_may_have_been_run():
    asking = WorkerLoad("z", 0.0, asking=True)
    assert AskWhenIdle().decide([WorkerLoad("a", 8.0, coming_s=8.0), asking]) == []
    assert AskWhenIdle().decide([WorkerLoad("a", 8.0, age_s=8.0), asking]) == []
    (transfer,) = AskWhenIdle().decide([WorkerLoad("a", 8.0, age_s=2.0), WorkerLoad("b", 9.0, coming_s=5.0), asking])
    assert (transfer.giver, transfer.seconds) == ("a", 3.0)


def test_a_taker_that_still_has_work_gets_what_comes_after_it():
    low = WorkerLoad("b", 2.0, asking=True)
    (transfer,) = AskWhenIdle().decide([WorkerLoad("a", 8.0), low])
    assert (transfer.seconds, transfer.share, transfer.after) == (3.0, 0.5, 0.25)


def test_low_queues_are_filled_only_while_heartbeats_are_fresh_and_queues_long():
    low = [WorkerLoad("a", 40.0), WorkerLoad("b", 10.0)]
    assert [(t.giver, t.taker) for t in AskWhenIdle(level_above_s=5.0).decide(low)] == [("a", "b")]
    assert AskWhenIdle(level_above_s=30.0).decide(low) == []
    assert AskWhenIdle().decide([w._replace(age_s=1.0) for w in low]) == []


def test_a_tunder_too_small_is_refused_with_what_it_must_exceed():
    with pytest.raises(BadInput, match=r"given 5, allowed is more than 5\.0\d+ \(decision 0\.01 s \+ heartbeat 5 s"):
        BalancerSettings(tunder_s=5.0).check_tunder(0.05)
    BalancerSettings(tunder_s=5.5).check_tunder(0.05)


def test_names():
    settings = BalancerSettings()
    assert [type(policy_named(n, settings)) for n in ("dlber", "fill_to_mean", "ask_when_idle", "none")] == [
        Dlber,
        FillToMean,
        AskWhenIdle,
        NoBalancing,
    ]
    with pytest.raises(BadInput, match="'dlber'"):
        policy_named("dlbr", settings)
    with pytest.raises(BadInput, match="lease_s 0"):
        WorkerSettings(direct=True, lease_s=1.0)
