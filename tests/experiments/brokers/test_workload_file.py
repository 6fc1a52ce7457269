"""QuoteWorkload files of section 5.1."""

from __future__ import annotations

import random

import pytest

from evenflow.errors import BadInput
from evenflow.experiments.brokers.padres_local import LocalSettings
from evenflow.experiments.brokers.padres_local import run as run_local
from evenflow.experiments.brokers.workload import publications
from evenflow.experiments.brokers.workload_file import read_workload

BROKERS = "1.0 broker add B0 2000 32 10\n1.1 broker add B1 50 16 0.5\n1.2 broker add B2 400 16 1\n"
CLUSTERS = BROKERS + "1.3 broker add B3 400 16 1\n1.4 broker add B4 400 16 1 B3\n1.5 broker add B5 400 16 1 B3\n"
PUBLISHERS = "2.0 publisher add P1 YHOO 60 B0\n60.0 publisher chrate P1 120\n"


def workload(tmp_path, text):
    file = tmp_path / "workload"
    file.write_text(text)
    return file


def test_brokers_publishers_and_rates(tmp_path):
    found = read_workload(workload(tmp_path, f"# a cluster\n\n{BROKERS}{PUBLISHERS}"))
    assert [(b.name, b.head, b.mhz, b.memory_mb, b.mbps) for b in found.brokers] == [
        ("B0", None, 2000, 32, 10),
        ("B1", "B0", 50, 16, 0.5),
        ("B2", "B0", 400, 16, 1),
    ]
    assert found.symbols == ["YHOO"]
    times, _ = publications(random.Random(1), found.sources(), 120.0, "real", 10)
    assert sum(t < 60 for t in times) == pytest.approx(58, abs=1)
    assert sum(t >= 60 for t in times) == pytest.approx(120, abs=1)


def test_a_file_runs(tmp_path):
    people = "".join(f"{10 + n} subscriber add S{n} B1 [class,eq,'STOCK'],[symbol,eq,'YHOO']\n" for n in range(30))
    file = workload(tmp_path, BROKERS + PUBLISHERS + people)
    settings = LocalSettings(workload=str(file), seconds=300.0, change_at=200.0)
    row = run_local(settings, 1, None)
    assert set(row["shares"]) == {"B1", "B2"}
    assert sum(row["shares"].values()) == pytest.approx(100.0)
    assert row["deliveries"] > 30 * 200
    assert (row["lost"], row["duplicated"]) == (0, 0)


def test_roles_follow_from_links(tmp_path):
    found = read_workload(workload(tmp_path, CLUSTERS + PUBLISHERS.replace("B0", "B1")))
    assert {b.name: b.head for b in found.brokers} == {
        "B0": None, "B1": "B0", "B2": "B0", "B3": None, "B4": "B3", "B5": "B3",
    }  # fmt: skip
    assert found.links == [("B0", "B3")]


def test_two_clusters_and_a_broker_that_joins_late(tmp_path):
    people = "".join(f"{10 + n * 0.2} subscriber add S{n} B1 [class,eq,'STOCK']\n" for n in range(400))
    late = "200.0 broker add B6 2000 32 10 B0\n"
    file = workload(tmp_path, CLUSTERS + PUBLISHERS + people + late)
    rows = []
    settings = LocalSettings(workload=str(file), seconds=1200.0, change_at=1100.0, balancer="even")
    row = run_local(settings, 1, rows.append)
    assert set(row["shares"]) == {"B1", "B2", "B4", "B5", "B6"}
    assert row["shares"]["B6"] > 30.0  # the newcomer is as fast as all others together
    assert (row["lost"], row["duplicated"]) == (0, 0)
    takers = {r["taker"] for r in rows if r["kind"] == "broker_session" and r["moved"]}
    assert "B6" in takers
    early = [r["clients"] for r in rows if r["kind"] == "sample" and r["node"] == "B6" and r["at"] <= 200]
    assert set(early) == {0}


def test_subscribers_that_come_to_a_head_are_sent_on(tmp_path):
    people = "".join(f"{10 + n} subscriber add S{n} B0 [class,eq,'STOCK']\n" for n in range(30))
    file = workload(tmp_path, BROKERS + PUBLISHERS + people)
    settings = LocalSettings(workload=str(file), seconds=200.0, change_at=150.0, balancer="none")
    row = run_local(settings, 1, None)
    assert sum(row["shares"].values()) == pytest.approx(100.0)
    assert min(row["shares"].values()) > 20.0  # at random, half of them each
    assert (row["lost"], row["duplicated"]) == (0, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.0 broker add B0 500 16\n", "line 1"),
        ("1.0 broker add B0 fast 16 10\n", "'fast'"),
        ("1.0 broker add B0 0 16 10\n", "above 0"),
        ("x broker add B0 500 16 10\n", "a number"),
        ("1.0 broker drop B0\n", "TIME broker add"),
        (BROKERS + "1.0 broker add B0 500 16 10\n", "B0 twice"),
        (BROKERS + "2.0 publisher add P1 YHOO 10 B9\n", "broker B9"),
        (BROKERS + "2.0 publisher chrate P1 20\n", "publisher P1"),
        (BROKERS + PUBLISHERS + "3.0 publisher add P2 YHOO 10 B0\n", "twice"),
        (BROKERS + PUBLISHERS + "3.0 publisher chrate P1 20\n", "not before"),
        (BROKERS + PUBLISHERS + "3.0 subscriber add S1 B1 [class\n", "a subscription"),
        (BROKERS + PUBLISHERS + "3.0 broker add B9 1 1 1 B1\n", "to join a cluster head"),
        (BROKERS + PUBLISHERS + "3.0 broker add B9 1 1 1 B7\n", "broker B7"),
        (CLUSTERS + PUBLISHERS.replace("B0", "B3"), "in the cluster of B0"),
        (BROKERS, "no publisher"),
        ("1.0 broker add B0 500 16 10\n", "1 brokers"),
    ],
)
def test_what_makes_no_sense_is_refused_by_line(tmp_path, text, said):
    with pytest.raises(BadInput, match=said):
        read_workload(workload(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match="can be read"):
        read_workload(tmp_path / "nowhere")
