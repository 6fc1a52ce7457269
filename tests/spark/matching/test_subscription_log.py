"""One record per line: whatever an id or a string holds, it cannot become another record."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenflow.errors import BadInput
from evenflow.experiments.brokers.workload_file import read_workload
from evenflow.experiments.triggers.graph import read_graph
from evenflow.spark.brokers.plane import Brokers
from evenflow.spark.brokers.subscribers import SubscriptionSource
from evenflow.spark.matching.subscription_log import LiveIndex, current_version, line_of, read_changes, read_line
from evenflow.subscriptions.language import parse_subscription

GHOST = "[class,eq,'x\n-victim\n+ghost\t[volume,>,0]\n']"
LINE_ENDS = "\n\r\t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\0\\\"'+-[]#, "

names = st.text(st.one_of(st.sampled_from(LINE_ENDS), st.characters(exclude_categories=["Cs"])), max_size=12)


def subscription(text: str) -> str:
    """A subscription to one string, whatever it holds."""
    return "[class,eq,'" + text.replace("\\", "\\\\").replace("'", "\\'") + "']"


@given(names, st.one_of(st.none(), names))
@example("victim", GHOST)
@example("", "")
@example("a\r", "b\r")
def test_a_line_gives_back_what_was_written(name, text):
    line = line_of(name, text).encode()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert read_line(line[:-1]) == (name, text)


@settings(max_examples=30)
@given(st.lists(st.tuples(names, st.one_of(st.none(), names)), max_size=6))
def test_an_index_holds_who_the_lines_leave(tmp_path_factory, changes):
    place = tmp_path_factory.mktemp("log")
    lines = [line_of(name, None if text is None else subscription(text)) for name, text in changes]
    (place / "1").write_text("".join(lines))
    index = LiveIndex(place, "numpy").at(current_version(place))
    wanted = {name for name, text in dict(changes).items() if text is not None}
    assert sorted(name for name in {*dict(changes), "ghost"} if name in index) == sorted(wanted)
    assert len(index) == len(wanted)


class Waiting:
    """A source whose changes are set by hand."""

    def __init__(self, changes):
        self.changed = changes
        self.faults = []

    def changes(self):
        found, self.changed = self.changed, {}
        return {name: None if text is None else (parse_subscription(text), text) for name, text in found.items()}


def federation(place, source) -> Brokers:
    return Brokers(None, source, brokers=2, clusters=1, place=place, settings=None, entry="B1.1", engine="numpy")


def on_lane(made: Brokers) -> list[tuple[str, str]]:
    """What the tasks of a batch would find in the log of the first lane."""
    place = made.place / "lanes" / "B1.1"
    changes = read_changes([("log", 0, (place / made._log_name).read_bytes())])
    assert changes.faults == []
    return changes.ids


def test_a_string_with_line_ends_neither_removes_a_subscriber_nor_adds_one(tmp_path):
    made = federation(tmp_path, Waiting({"victim": "[volume,>,5]", "bad": GHOST}))
    made._admit()
    assert sorted(on_lane(made)) == ["bad", "victim"]
    made._pinned(0)
    again = federation(tmp_path, Waiting({"victim": "[volume,>,5]", "bad": GHOST}))
    assert sorted(again.where) == ["bad", "victim"]
    assert again.texts["bad"] == GHOST


@settings(max_examples=30)
@given(st.dictionaries(names, names, max_size=5))
def test_subscribers_survive_the_end_of_a_driver(tmp_path_factory, texts):
    place = tmp_path_factory.mktemp("brokers")
    wanted = {name: subscription(text) for name, text in texts.items()}
    made = federation(place, Waiting(wanted))
    made._admit()
    made._pinned(0)
    again = federation(place, Waiting({}))
    assert again.texts == wanted
    assert set(again.where) == set(wanted)


def test_another_subscription_of_the_same_id_takes_effect_on_the_same_lane(tmp_path):
    made = federation(tmp_path, Waiting({"one": "[volume,>,5]"}))
    made._admit()
    made.subscriptions.changed = {"one": "[volume,>,900]"}
    made._admit()
    place = made.place / "lanes" / "B1.1"
    lines = (place / made._log_name).read_bytes().split(b"\n")[:-1]
    assert read_line(lines[-1]) == ("one", "[volume,>,900]")
    assert on_lane(made) == ["one"]


@pytest.mark.parametrize(
    "line", [b"[", b"[1]", b'["a"]', b'["a",1]', b'[1,"x"]', b'["a","x",2]', b"[" * 100_000, b'["\\ud800",null]']
)
def test_an_array_that_says_nothing_is_a_fault(line):
    changes = read_changes([("1", 0, line + b"\n+a\t[volume,>,5]\n")])
    assert (changes.ids, len(changes.faults)) == (["a"], 1)


def test_a_fault_in_an_array_says_where():
    changes = read_changes([("1", 0, line_of("a", "[volume,over,5]").encode() + b"+a\t[volume,over,5]\n")])
    assert [str(fault).partition(": ")[0] for fault in changes.faults] == ["1, line 1", "1, line 2"]
    assert "subscription, line 1, column 9" in str(changes.faults[0])
    assert "column 12: " in str(changes.faults[1])


def test_what_a_directory_has_is_registered_with_its_line_ends(tmp_path):
    (tmp_path / "1").write_text(line_of("a\tb", GHOST) + "+victim\t[volume,>,5]\n")
    assert {name: change and change[1] for name, change in SubscriptionSource(tmp_path).changes().items()} == {
        "a\tb": GHOST,
        "victim": "[volume,>,5]",
    }


class Frame:
    """What a source asks of a DataFrame."""

    columns = ("id", "subscription")

    def __init__(self, *rows):
        self.rows = [dict(zip(self.columns, row, strict=True)) for row in rows]

    def selectExpr(self, *_):  # noqa: N802 - Spark's name
        return self

    def collect(self):
        return self.rows


def test_a_frame_without_ids_or_with_one_twice_is_refused_and_a_missing_subscription_is_told(caplog):
    for rows, said in (((None, "[a,>,1]"),), "a null id"), ((("x", "[a,>,1]"), ("x", "[a,>,2]")), "the id 'x' twice"):
        with pytest.raises(BadInput, match=said):
            SubscriptionSource(Frame(*rows)).changes()
    source = SubscriptionSource(Frame(("x", None), ("y", "[a,>,1]")))
    assert list(source.changes()) == ["y"]
    assert source.faults == ["x: no subscription"]
    assert "left out: x: no subscription" in caplog.text


# -- other files with a record per line ---------------------------------------------------------

WORKLOAD = """0 broker add B0 2000 32 10
0 broker add B1 100 32 1 B0
0 broker add B2 100 32 1 B0
0 publisher add P1 YHOO 1.0 B0
1 subscriber add S1 B1 [class,eq,'STOCK'],[symbol,eq,'{}']
"""


@pytest.mark.parametrize("symbol", ["A\u2028B", "A\x85B", "A\x1cB", "A  B", "A\x0bB", " A "])
def test_a_string_of_a_workload_file_stays_as_it_is(tmp_path, symbol):
    path = tmp_path / "workload"
    path.write_text(WORKLOAD.format(symbol))
    _, found, _ = read_workload(path).subscribers["S1"]
    assert found == parse_subscription(f"[class,eq,'STOCK'],[symbol,eq,'{symbol}']")


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\x0c", "\x1c"])
def test_a_comment_of_an_edge_list_goes_to_the_end_of_its_line(tmp_path, end):
    path = tmp_path / "edges"
    path.write_text(f"# from{end}7 8\n1 2\r\n2 3\n")
    assert read_graph(str(path)).pages == (1, 2, 3)
