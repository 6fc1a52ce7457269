"""``evenflow.match`` on DataFrames: the oracle's result in batch and in streams, while subscriptions change."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenflow.errors import BadInput
from evenflow.subscriptions.language import Publication, matches, parse_subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RULES = {
    1: "[class,eq,'STOCK'],[symbol,eq,'A'],[high,>,10.5]",
    2: "[class,eq,'STOCK'],[volume,>,9007199254740992]",
    3: "[symbol,str-prefix,'A'],[high,>,1],[high,<,100]",
    20: "[volume,<>,5]",
    10: "[symbol,neq,'B']",
}
ROWS: list[tuple[int, str, str | None, float | None, int | None]] = [
    (0, "STOCK", "A", 11.0, 2**53 + 1),
    (1, "STOCK", "A", 10.5, 2**53),
    (2, "STOCK", None, float("nan"), 5),
    (3, "BOND", "AB", 50.0, None),
    (4, "BOND", "B", None, -(2**63)),
]
SCHEMA = "event int, class string, symbol string, high double, volume bigint"


def expected(rules: dict[Any, str], rows: list[tuple[Any, ...]]) -> dict[int, list[Any]]:
    names = ("class", "symbol", "high", "volume")
    parsed = {name: parse_subscription(rules[name]) for name in rules}
    found: dict[int, list[Any]] = {}
    for number, *values in rows:
        event: Publication = {k: v for k, v in zip(names, values, strict=True) if v is not None}
        found[number] = [name for name, rule in parsed.items() if matches(rule, event)]
    return found


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA)


def rules_frame(spark: SparkSession, rules: dict[Any, str], kind: str) -> DataFrame:
    return spark.createDataFrame(list(rules.items()), f"id {kind}, subscription string")


@pytest.mark.parametrize("kind", ["int", "bigint", "string"])
def test_lists_counts_and_pairs_are_the_oracles(spark: SparkSession, events: DataFrame, kind: str) -> None:
    import evenflow

    rules = {str(name) if kind == "string" else name: rule for name, rule in RULES.items()}
    frame = rules_frame(spark, rules, kind)
    wanted = {event: sorted(names) for event, names in expected(rules, ROWS).items()}
    found = evenflow.match(events, frame)
    assert found.columns == [*events.columns, "matches", "error"]
    assert found.schema["matches"].dataType.simpleString() == f"array<{kind}>"
    assert {row.event: row.matches for row in found.collect()} == wanted
    counts = evenflow.match(events, frame, output="counts", keep=["event"]).collect()
    assert {row.event: row.matches for row in counts} == {event: len(names) for event, names in wanted.items()}
    pairs = evenflow.match(events, frame, output="pairs", keep=["event"])
    assert pairs.columns == ["event", "subscription", "error"]
    found_pairs = sorted((row.event, row.subscription) for row in pairs.collect())
    assert found_pairs == sorted((event, name) for event, names in wanted.items() for name in names)


def test_rows_that_cannot_be_read_are_set_aside_with_the_reason(spark: SparkSession) -> None:
    import evenflow

    rules = rules_frame(spark, {1: "[volume,>,10]", 2: "[flag,eq,*]", 3: "[symbol,eq,'A']"}, "int")
    rows = [("A", "11", None), ("A", "many", None), ("A", None, None), ("A", "12", True), ("A", "1e400", None)]
    events = spark.createDataFrame(rows, "symbol string, volume string, flag boolean")
    found = evenflow.match(events, rules, types={"volume": "number"}).collect()
    by_row = {(row.volume, row.flag): (row.matches, row.error) for row in found}
    assert len(found) == len(rows)
    assert by_row["11", None] == ([1, 3], None)
    assert by_row[None, None] == ([3], None)
    assert by_row["many", None][0] is None
    assert "'many' is not a number" in by_row["many", None][1]
    assert "'1e400' is not a number" in by_row["1e400", None][1]
    assert "flag: a bool is neither a string nor a number" in by_row["12", True][1]
    pairs = evenflow.match(events, rules, types={"volume": "number"}, output="pairs").collect()
    assert (
        sorted((row.subscription is None, row.error is None) for row in pairs)
        == [(False, True)] * 3 + [(True, False)] * 3
    )
    without = evenflow.match(
        events.select("symbol", "volume"), rules
    ).collect()  # text is no number: no match, no error
    assert all(row.error is None and row.matches == [3] for row in without)
    numbers = evenflow.match(spark.range(3).withColumnRenamed("id", "volume"), rules, types={"volume": "string"})
    assert ["is not a string" in row.error for row in numbers.collect()] == [True] * 3


def test_whole_events_as_text(spark: SparkSession) -> None:
    import evenflow

    lines = [("[symbol,'A'],[volume,11]",), ("[symbol,'A'],[volume,'11']",), ("[symbol,'A'",), (None,)]
    events = spark.createDataFrame(lines, "line string")
    rules = rules_frame(spark, {1: "[volume,>,10]", 3: "[symbol,eq,'A']"}, "int")
    found = evenflow.match(events, rules, publication="line").collect()
    by_line = {row.line: (row.matches, row.error) for row in found}
    assert by_line[lines[0][0]] == ([1, 3], None)
    assert by_line[lines[1][0]] == ([3], None)
    assert by_line[lines[2][0]][0] is None
    assert "line 1, column 12" in by_line[lines[2][0]][1]
    assert by_line[None][1]


def test_other_columns_pass_unharmed(spark: SparkSession) -> None:
    import evenflow

    events = spark.sql(
        "SELECT 'A' AS `the.symbol`, timestamp'2020-01-02 03:04:05' AS at, array(1, NULL) AS list, named_struct('x', 1) AS s,"
        " CAST(1.50 AS decimal(10,2)) AS price, CAST(NULL AS binary) AS bytes, date'2020-01-02' AS day, true AS flag"
    )
    rules = rules_frame(spark, {1: "[the.symbol,eq,'A'],[price,=,1.5]"}, "int")
    assert evenflow.match(events, rules).drop("matches", "error").collect() == events.collect()
    assert [row.subscription for row in evenflow.match(events, rules, output="pairs").collect()] == [1]
    assert [row.asDict() for row in evenflow.match(events, rules, keep=[]).collect()] == [
        {"matches": [1], "error": None}
    ]


def test_no_subscriptions_match_nothing(spark: SparkSession, events: DataFrame) -> None:
    import evenflow

    nothing = spark.createDataFrame([], "id int, subscription string")
    assert [row.matches for row in evenflow.match(events, nothing).collect()] == [[]] * len(ROWS)


def test_bad_arguments_are_refused_with_a_sentence(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    import evenflow

    rules = rules_frame(spark, {1: "[a,>,1]"}, "int")
    with pytest.raises(BadInput, match="'lists'"):
        evenflow.match(events, rules, output="lists")
    with pytest.raises(BadInput, match="'nothere'"):
        evenflow.match(events, rules, keep=["nothere"])
    with pytest.raises(BadInput, match="id and subscription"):
        evenflow.match(events, events)
    with pytest.raises(BadInput, match="'matches'"):
        evenflow.match(events.withColumnRenamed("high", "matches"), rules)
    with pytest.raises(BadInput, match=r"2 subscriptions that cannot be read, first 1 \(line 1, column 4"):
        evenflow.match(events, rules_frame(spark, {1: "[a,]", 2: "x", 3: "[a,=,1]"}, "int"))
    with pytest.raises(BadInput, match="the id 7 twice"):
        evenflow.match(
            events, rules_frame(spark, {7: "[a,=,1]"}, "int").union(rules_frame(spark, {7: "[a,=,2]"}, "int"))
        )
    (tmp_path / "1").write_text("+a\t[x,=,1]\n*b\n")
    with pytest.raises(BadInput, match="1 lines that cannot be read, first 1, line 2"):
        evenflow.match(events, tmp_path)


def test_a_directory_in_batch_is_folded_as_it_stands(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    import evenflow

    (tmp_path / "1").write_text("# rules\n+x\t[symbol,eq,'A']\n+y\t[symbol,eq,'A']\n-x\n")
    (tmp_path / "2").write_text("+z\t[high,>,10.9]\n+y\t[symbol,eq,*]\n+late\t[symbol,eq,*]")  # no line end yet
    found = {row.event: row.matches for row in evenflow.match(events, tmp_path).collect()}
    assert found == {0: ["z", "y"], 1: ["y"], 2: [], 3: ["z", "y"], 4: ["y"]}


class Stream:
    """A stream over a directory of events that is run for what is there, and remembers every batch it was given."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark, self.place = spark, place
        self.rules, self.events, self.commits = place / "rules", place / "events", place / "checkpoint" / "commits"
        self.rules.mkdir()
        self.events.mkdir()
        self.batches: list[tuple[int, dict[int, list[str]]]] = []

    def publish(self, *rows: tuple[int, str]) -> None:
        lines = "".join(json.dumps({"event": event, "symbol": symbol}) + "\n" for event, symbol in rows)
        (self.events / f"{rows[0][0]}.json").write_text(lines)

    def run(self) -> tuple[int, dict[int, list[str]]]:
        import evenflow

        events = self.spark.readStream.schema("event int, symbol string").json(str(self.events))
        query = (
            evenflow.match(events, self.rules)
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self.place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return self.batches[-1]

    def _take(self, batch: DataFrame, number: int) -> None:
        self.batches.append((number, {row.event: row.matches for row in batch.collect()}))

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a process does that dies after the work and before the commit."""
        (self.commits / str(batch)).unlink()
        (self.commits / f".{batch}.crc").unlink()


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def test_a_stream_follows_its_subscriptions_and_a_replay_sees_what_it_saw(stream: Stream) -> None:
    first = stream.rules / "1"
    first.write_text("+a\t[symbol,eq,'A']\n+all\t[symbol,eq,*]\n")
    stream.publish((1, "A"), (2, "B"))
    assert stream.run() == (0, {1: ["a", "all"], 2: ["all"]})
    # Appended lines, one that cannot be read, and one without its end: the stream goes on.
    with first.open("a") as log:
        log.write("-all\n+b\t[symbol,eq,'B']\n+c\t[symbol,\n+half\t[symbol,eq,*]")
    stream.publish((3, "A"), (4, "B"))
    assert stream.run() == (1, {3: ["a"], 4: ["b"]})
    stream.forget_commit(1)
    with first.open("a") as log:
        log.write("\n+new\t[symbol,eq,*]\n")
    (stream.rules / "2").write_text("-a\n")
    stream.publish((5, "A"), (6, "B"))
    assert stream.run() == (2, {5: ["half", "new"], 6: ["b", "half", "new"]})
    assert stream.batches[2] == stream.batches[1] == (1, {3: ["a"], 4: ["b"]})  # replayed while newer lines were there


def test_a_replay_without_its_pin_would_see_newer_lines(stream: Stream) -> None:
    (stream.rules / "1").write_text("+a\t[symbol,eq,*]\n")
    stream.publish((1, "A"))
    assert stream.run() == (0, {1: ["a"]})
    stream.forget_commit(0)
    pins = list((stream.rules / "_pins").glob("*/0"))
    assert len(pins) == 1
    pins[0].unlink()
    (stream.rules / "2").write_text("+b\t[symbol,eq,*]\n")
    assert stream.run() == (0, {1: ["a", "b"]})


def test_versions_are_followed_by_new_lines_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenflow.spark.matching import subscription_log
    from evenflow.spark.matching.subscription_log import LiveIndex, current_version

    read: list[int] = []
    whole = subscription_log.read_changes
    monkeypatch.setattr(
        subscription_log,
        "read_changes",
        lambda parts: whole(read.append(len(p[2])) or p for p in parts),  # type: ignore[func-returns-value]
    )
    file = tmp_path / "1"
    file.write_text("+a\t[x,=,1]\n" * 10)
    live = LiveIndex(tmp_path)
    first = current_version(tmp_path)
    assert live.at(first).ids() == ["a"]
    with file.open("a") as log:
        log.write("+b\t[x,=,1]\n-a\n")
    (tmp_path / "2").write_text("+c\t[x,=,1]\n")
    second = current_version(tmp_path)
    assert live.at(second).ids() == ["b", "c"]
    assert read == [110, 14, 11]
    with file.open("a") as log:  # an earlier file grows: its lines come before those of the later one
        log.write("-c\n")
    assert live.at(current_version(tmp_path)).ids() == ["b", "c"]
    assert live.at(second).ids() == ["b", "c"]
    assert live.at(first).ids() == ["a"]  # an older batch is replayed
    file.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        live.at(second)
    (tmp_path / "away").rename(file)
    assert live.at(second).ids() == ["b", "c"]  # a failure leaves nothing half-done


def test_lines_that_cannot_be_read_are_told_with_their_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from evenflow.spark.matching.subscription_log import LiveIndex, current_version, subscription_faults

    (tmp_path / "1").write_bytes(
        b"+a\t[x,=,1]\n+b [x,=,1]\n+c\t[x,=,]\n-\n\n# no\n+\xff\t[x,=,1]\n-a\t\n+a\t[x,=,'1']\n"
    )
    told = [str(fault) for fault in subscription_faults(tmp_path)]
    assert [line.split(":")[0] for line in told] == [f"1, line {n}" for n in (2, 3, 4, 7, 8, 9)]
    assert "column 9" in told[1]
    with caplog.at_level(logging.WARNING):
        assert LiveIndex(tmp_path).at(current_version(tmp_path)).ids() == [
            "a"
        ]  # a replacement with a fault changes nothing
    assert len(caplog.messages) == 6


def test_frames_directories_and_streams_match_on_any_session(spark: SparkSession, tmp_path: Path) -> None:
    import evenflow

    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "1").write_text("+a\t[symbol,eq,'A']\n")
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.json").write_text('{"symbol":"A"}\n{"symbol":"B"}\n')
    events = spark.createDataFrame([("A", 1), ("B", 5)], "symbol string, volume int")
    rules = spark.createDataFrame([(1, "[volume,>,2]"), (2, "[symbol,eq,*]")], "id int, subscription string")
    lists = evenflow.match(events, rules).orderBy("symbol").collect()
    assert [list(row.matches) for row in lists] == [[2], [1, 2]]
    pairs = evenflow.match(events, str(tmp_path / "rules"), output="pairs").collect()
    assert [row.subscription for row in pairs] == ["a"]
    stream = spark.readStream.schema("symbol string").json(str(tmp_path / "events"))
    for name, source, counts in (
        ("directory", str(tmp_path / "rules"), [("A", 1), ("B", 0)]),
        ("frame", rules.limit(2), [("A", 1), ("B", 1)]),
    ):
        query = (
            evenflow.match(stream, source, output="counts")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / f"checkpoint-{name}"))
            .option("path", str(tmp_path / f"out-{name}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        found = spark.read.parquet(str(tmp_path / f"out-{name}")).collect()
        assert sorted((row.symbol, row.matches) for row in found) == counts
