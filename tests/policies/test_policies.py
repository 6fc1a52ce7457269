"""The published policies do what their pages say, and names find policies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from evenflow.errors import BadInput
from evenflow.model import Move, Node, Snapshot, Unit
from evenflow.planner import plan
from evenflow.policies import EvenCounts, LeastMoves, LoadClasses, named


def counts(*per_node: int) -> Snapshot:
    """So many units of load 1 on each of the nodes A, B, C, …, numbered from 0."""
    names = "ABCDEFGH"[: len(per_node)]
    homes = [name for name, count in zip(names, per_node, strict=True) for _ in range(count)]
    return Snapshot.of([Node(n) for n in names], [Unit(str(i), home, 1.0) for i, home in enumerate(homes)])


def movements(snapshot: Snapshot, policy) -> Counter:
    return Counter((m.giver, m.taker) for m in plan(snapshot, policy).moves)


def ends(snapshot: Snapshot, policy) -> list[int]:
    left = Counter(snapshot.node_ids[n] for n in snapshot.owner.tolist())
    for move in plan(snapshot, policy).moves:
        left[move.giver] -= 1
        left[move.taker] += 1
    return [left[n] for n in snapshot.node_ids]


class TestEvenCounts:
    def test_the_example_of_the_thesis(self):
        """DPSLB thesis, section 4.4: two movements of two slices each; C ends with four."""
        assert movements(counts(5, 5, 0), EvenCounts()) == {("A", "C"): 2, ("B", "C"): 2}
        assert ends(counts(5, 5, 0), EvenCounts()) == [3, 3, 4]

    def test_the_lowest_ids_go_and_digits_are_numbers(self):
        moves = plan(counts(12, 0), EvenCounts()).moves
        assert [m.unit for m in moves] == ["0", "1", "2", "3", "4", "5"]
        moves = plan(counts(2, 12), EvenCounts()).moves
        assert [m.unit for m in moves] == ["2", "3", "4", "5", "6"]
        mixed = Snapshot.of([Node("A"), Node("B")], [Unit(f"s{i}", "A", 1.0) for i in (10, 9, 2, 1)])
        assert [m.unit for m in plan(mixed, EvenCounts()).moves] == ["s1", "s2"]

    def test_any_text_can_be_an_id(self):
        """A superscript is a digit to Python but no number, and a long number is none that it converts."""
        long = "1" * 5000
        odd = Snapshot.of([Node("A"), Node("B")], [Unit(i, "A", 1.0) for i in ("²", "x007", long, "x6", "٣", "")])
        assert [m.unit for m in plan(odd, EvenCounts()).moves] == ["", long, "x6"]

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ((12, 0, 0), [4, 4, 4]),
            ((100, 0, 0, 0, 0), [20, 20, 20, 20, 20]),
            ((9, 0, 0, 0), [2, 3, 2, 2]),  # 9/4 ≈ 2: the giver goes down to that
            ((8, 0, 0), [3, 3, 2]),  # 8/3 ≈ 3
            ((5, 0), [3, 2]),  # a half is rounded up
            ((3, 3, 3, 0, 0), [2, 2, 2, 2, 1]),
            ((2, 0, 0), [1, 1, 0]),
            ((4, 4, 2), [3, 3, 4]),
            ((3, 3, 4), [3, 3, 4]),
            ((10,), [10]),
            ((1, 0, 0), [1, 0, 0]),  # even already
            ((), []),
        ],
    )
    def test_takers_stop_where_givers_do(self, before, after):
        assert ends(counts(*before), EvenCounts()) == after

    def test_loads_do_not_matter(self):
        units = [Unit("hot", "A", 100.0), Unit("x", "B", 1.0)]
        assert plan(Snapshot.of([Node("A"), Node("B")], units), EvenCounts()).moves == ()

    def test_pinned_units_stay_and_others_go_in_their_place(self):
        units = [Unit(str(i), "A", 1.0, pinned=i < 3) for i in range(6)]
        moves = plan(Snapshot.of([Node("A"), Node("B")], units), EvenCounts()).moves
        assert [m.unit for m in moves] == ["3", "4", "5"]

    def test_units_that_a_taker_may_not_have_go_to_another_and_others_go_in_their_place(self):
        units = [Unit(str(i), "A", 1.0, allowed=frozenset("AC") if i < 3 else None) for i in range(9)]
        result = plan(Snapshot.of([Node("A"), Node("B"), Node("C")], units), EvenCounts())
        assert {(m.unit, m.taker) for m in result.moves} == {*zip("345", "BBB"), *zip("012", "CCC")}  # noqa: B905
        assert result.refusals == {"allowed": 3}


class TestLoadClasses:
    def test_from_overloaded_to_underloaded_until_normal(self):
        units = (
            [Unit(f"a{i}", "A", 1.0) for i in range(9)]
            + [Unit(f"b{i}", "B", 1.0) for i in range(5)]
            + [Unit("c", "C", 1.0)]
        )
        snapshot = Snapshot.of([Node("A"), Node("B"), Node("C")], units)  # mean 5: above 6 is over, below 4 under
        assert movements(snapshot, LoadClasses()) == {("A", "C"): 3}

    def test_measured_load_counts_and_not_the_number_of_units(self):
        units = [Unit("hot", "A", 8.0), Unit("warm", "A", 4.0), *[Unit(f"b{i}", "B", 0.5) for i in range(8)]]
        moves = plan(Snapshot.of([Node("A"), Node("B")], units), LoadClasses()).moves
        assert [(m.unit, m.taker) for m in moves] == [("warm", "B")]  # the hot one would only swap the classes

    def test_normal_nodes_are_left_alone(self):
        units = [Unit("u", "A", 1.1), Unit("v", "B", 0.9)]
        assert plan(Snapshot.of([Node("A"), Node("B")], units), LoadClasses()).moves == ()

    def test_thresholds_are_settings(self):
        snapshot = counts(6, 4)
        assert plan(snapshot, LoadClasses()).moves == ()
        assert ends(snapshot, LoadClasses(overloaded=1.0, underloaded=1.0)) == [5, 5]
        with pytest.raises(BadInput, match="0 <= underloaded <= overloaded"):
            LoadClasses(overloaded=0.5, underloaded=0.8)


@dataclass(frozen=True)
class Mine:
    """A person's own policy."""

    how_many: int = 1

    def propose(self, draft):
        for unit in draft.units_of(0).tolist()[: self.how_many]:
            yield draft.move(unit, 1, "mine")


class NoSettings:
    def propose(self, draft):
        yield Move("0", "A", "B")


class NoPolicy:
    pass


class TestNames:
    def test_known_names(self):
        assert named("load_classes", overloaded=1.5) == LoadClasses(overloaded=1.5)
        assert named("least_moves", ceiling=0.1) == LeastMoves(ceiling=0.1)
        assert named("load_classes") == LoadClasses()

    @pytest.fixture(autouse=True)
    def _this_module_can_be_imported(self, monkeypatch):
        import sys

        monkeypatch.setitem(sys.modules, "my_policies", sys.modules[__name__])

    def test_a_class_of_ones_own(self):
        policy = named("my_policies:Mine", how_many=2)
        assert len(plan(counts(4, 0), policy).moves) == 2
        assert len(plan(counts(4, 0), named("my_policies:NoSettings")).moves) == 1

    @pytest.mark.parametrize(
        ("name", "settings", "says"),
        [
            ("least_move", {}, "policy: given 'least_move', allowed is 'least_moves' (nearest)"),
            ("zzz", {}, "one of 'even_counts', 'least_moves', 'load_classes'"),
            (
                "least_moves",
                {"ceilling": 1},
                "given the setting 'ceilling' of policy 'least_moves', allowed is 'ceiling'",
            ),
            ("least_moves", {"ceiling": "high"}, "policy settings"),
            ("least_moves", {"target": 0.5}, "0 <= target <= ceiling"),
            ("least_moves", {"gain": float("nan")}, "a fraction from 0 to 1"),
            ("least_moves", {"effort": -1}, "0 or more"),
            (
                "even_counts",
                {"capped": True},
                "given the setting 'capped' of policy 'even_counts', allowed is no setting",
            ),
            (".my_policies:Mine", {}, "module:Class of a class that can be imported"),
            ("my_policies:NoSettings", {"name": 1}, "policy settings"),
            ("no_such_module:X", {}, "module:Class of a class that can be imported"),
            ("my_policies:Nobody", {}, "module:Class of a class that can be imported"),
            ("my_policies:NoPolicy", {}, "a class with a method propose(draft)"),
            ("my_policies:NoSettings", {"x": 1}, "policy settings"),
        ],
    )
    def test_what_is_unknown_is_refused_with_what_is_allowed(self, name, settings, says):
        with pytest.raises(BadInput) as refusal:
            named(name, **settings)
        assert says in str(refusal.value)
