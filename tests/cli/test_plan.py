"""``evenflow plan``: the JSON shape, and one sentence with the place for everything that is wrong."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys

import pytest

GOOD = {
    "nodes": [{"id": "a", "capacity": 1}, {"id": "b", "capacity": 2.0}],
    "units": [
        {"id": "u", "node": "a", "load": 2},
        {"id": "v", "node": "a", "load": 1.0, "pinned": False},
        {"id": "w", "node": "a", "load": 3, "allowed": ["a", "b"]},
    ],
}


def written(tmp_path, content) -> str:
    path = tmp_path / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_the_shape_of_the_result(evenflow, tmp_path):
    ended = evenflow("plan", written(tmp_path, GOOD), "--json")
    assert (ended.code, ended.err) == (0, "")
    result = json.loads(ended.out)
    assert set(result) >= {
        "moves", "before", "after", "lower_bound", "gap", "moved_load_pct", "needed_load_pct", "refusals", "seconds",
    }  # fmt: skip
    assert result["before"]["max_over_mean"] == pytest.approx(3.0)
    assert result["after"]["max_over_mean"] == pytest.approx(1.0)
    assert result["lower_bound"] == pytest.approx(2.0)
    assert result["gap"] == pytest.approx(0.0)
    assert result["needed_load_pct"] == pytest.approx(100 * 4 / 6)
    assert result["moved_load_pct"] == pytest.approx(100 * 4 / 6)
    assert {m["unit"] for m in result["moves"]} == {"v", "w"}
    assert all(set(m) == {"unit", "giver", "taker", "why"} and m["why"] for m in result["moves"])
    assert result["refusals"] == {}
    assert 0 <= result["seconds"] < 5


def test_the_numbers_can_be_found_again_from_the_moves(evenflow, tmp_path):
    units = [{"id": f"u{i}", "node": f"n{i % 3}", "load": 1 + (i * 7919 % 101) / 10} for i in range(60)]
    nodes = [{"id": f"n{i}", "capacity": 1 + i} for i in range(4)]
    result = json.loads(evenflow("plan", written(tmp_path, {"nodes": nodes, "units": units}), "--json").out)
    owner = {u["id"]: u["node"] for u in units}
    load = {u["id"]: u["load"] for u in units}
    for move in result["moves"]:
        assert owner[move["unit"]] == move["giver"]
        owner[move["unit"]] = move["taker"]
    level = {n["id"]: math.fsum(load[u] for u in load if owner[u] == n["id"]) / n["capacity"] for n in nodes}
    mean = math.fsum(load.values()) / sum(n["capacity"] for n in nodes)
    assert result["after"]["max_over_mean"] == pytest.approx(max(level.values()) / mean)
    assert result["gap"] == pytest.approx(max(level.values()) / result["lower_bound"] - 1)
    moved = math.fsum(load[m["unit"]] for m in result["moves"])
    assert result["moved_load_pct"] == pytest.approx(100 * moved / math.fsum(load.values()))


def test_standard_input(evenflow, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(GOOD).encode())))
    assert len(json.loads(evenflow("plan", "-", "--json").out)["moves"]) == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert evenflow("plan", "-").err == (
        "evenflow: standard input: given an empty file, allowed is a JSON object with nodes and units.\n"
    )


def test_ids_may_be_numbers_and_come_back_as_numbers(evenflow, tmp_path):
    request = {
        "nodes": [{"id": 0, "capacity": 1}, {"id": 1, "capacity": 1}],
        "units": [{"id": i, "node": 0, "load": 1, "allowed": [0, 1]} for i in range(4)],
    }
    moves = json.loads(evenflow("plan", written(tmp_path, request), "--json").out)["moves"]
    assert [(m["giver"], m["taker"], type(m["unit"])) for m in moves] == [(0, 1, int)] * 2


def test_several_dimensions(evenflow, tmp_path):
    request = {
        "nodes": [{"id": "a", "capacity": {"cpu": 1, "memory": 4}}, {"id": "b", "capacity": 2}],
        "units": [{"id": f"u{i}", "node": "a", "load": {"cpu": 1, "memory": i}} for i in range(4)],
    }
    result = json.loads(evenflow("plan", written(tmp_path, request), "--json").out)
    assert result["lower_bound"] == pytest.approx(4 / 3)
    assert result["moves"]


def test_settings_reach_the_planner_and_the_policy(evenflow, tmp_path):
    settings = {"churn": 0.2, "limit": 3, "cooling": ["u"], "ceiling": 0.1, "target": 0.05, "gain": 0.0, "gap": 0.5}
    result = json.loads(evenflow("plan", written(tmp_path, {**GOOD, "settings": settings}), "--json").out)
    assert {m["unit"] for m in result["moves"]} == {"v"}
    assert result["moved_load_pct"] <= 20


def test_every_policy_can_be_named(evenflow, tmp_path):
    for policy in ("even_counts", "load_classes", "least_moves"):
        ended = evenflow("plan", written(tmp_path, GOOD), "--policy", policy, "--json")
        assert ended.code == 0, ended.err
    moves = json.loads(evenflow("plan", written(tmp_path, GOOD), "--policy", "even_counts", "--json").out)["moves"]
    assert [m["unit"] for m in moves] == ["u"]
    ended = evenflow("plan", written(tmp_path, GOOD), "--policy", "least_move")
    assert (ended.code, ended.out) == (2, "")
    assert "'least_moves' (nearest)" in ended.err


def test_a_policy_that_breaks_the_limit_fails(evenflow, tmp_path):
    nodes = [{"id": "a", "capacity": 9}, {"id": "b", "capacity": 1}]
    units = [{"id": f"u{i}", "node": "a", "load": 2} for i in range(4)]
    request = {"nodes": nodes, "units": units, "settings": {"limit": 2}}
    result = json.loads(evenflow("plan", written(tmp_path, request), "--policy", "even_counts", "--json").out)
    assert result["failed"] == ["limit: node b is pushed over it"]
    assert result["moves"] == []


def test_a_person_sees_bars_and_moves(evenflow, tmp_path):
    out = evenflow("plan", written(tmp_path, GOOD)).out
    assert "█" in out
    assert "max/mean 3.0000 → 1.0000" in out
    assert "least moves: a is at 6" in out
    many = {
        "nodes": [{"id": f"[n{i}]", "capacity": 1} for i in range(30)],
        "units": [{"id": f"[/u{i}]", "node": "[n0]", "load": 1} for i in range(60)],
    }
    out = evenflow("plan", written(tmp_path, many)).out
    assert "and 10 nodes that are loaded less" in out
    assert "--json lists all" in out
    assert "[n0]" in out


def test_no_units_is_an_even_cluster(evenflow, tmp_path):
    ended = evenflow("plan", written(tmp_path, {"nodes": [{"id": "a", "capacity": 1}], "units": []}), "--json")
    result = json.loads(ended.out)
    assert (result["moves"], result["gap"], result["after"]["max_over_mean"]) == ([], 0.0, 1.0)
    assert evenflow("plan", written(tmp_path, {"nodes": [{"id": "a", "capacity": 1}], "units": []})).code == 0


def test_a_limit_beyond_every_number_is_no_limit(evenflow, tmp_path):
    nodes = [{"id": "a", "capacity": 1e200}, {"id": "b", "capacity": 1e200}]
    ended = evenflow("plan", written(tmp_path, {**GOOD, "nodes": nodes, "settings": {"limit": 1e200}}), "--json")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["after"]["max_over_mean"] == pytest.approx(1.0)


def changed(place: str, value) -> dict:
    """The good request with one field replaced: ``changed("units.0.load", -1)``; ``...`` removes it."""
    request = json.loads(json.dumps(GOOD))
    *path, last = [int(p) if p.isdigit() else p for p in place.split(".")]
    at = request
    for part in path:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return request


BAD = [
    ("", "given an empty file"),
    (" \n", "given an empty file"),
    ('{"nodes": [', "line 1, column 12: given malformed JSON"),
    ('{"nodes": [], "nodes": []}', "the key 'nodes' stands twice"),
    ('{\n "nodes": [],\n "units": [}\n', "line 3, column 12: given malformed JSON"),
    ("[]", "given [], allowed is a JSON object"),
    ("[" * 100_000, "JSON that cannot be read"),
    ("{}", "the file: given no nodes"),
    ({"nodes": [], "units": []}, "nodes: given no nodes"),
    (changed("units", ...), "the file: given no units"),
    (changed("units", {}), "units: given {}, allowed is a list of objects"),
    (changed("units.1", 7), "units[1]: given 7, allowed is an object"),
    (changed("units.1.load", -1), "units[1].load: given -1, allowed is a number of at least 0"),
    (changed("units.1.load", float("nan")), "units[1].load: given NaN"),
    (changed("units.1.load", float("inf")), "units[1].load: given Infinity"),
    (changed("units.1.load", 10**400), "units[1].load: given 1000"),
    ({**GOOD, "units": [{"id": i, "node": "a", "load": 1e308} for i in range(9)]}, "units: given loads whose sum"),
    (changed("nodes.0.capacity", 5e-324), "units: given loads whose sum is no finite number"),
    (changed("units.1.load", "3"), 'units[1].load: given "3"'),
    (changed("units.1.load", True), "units[1].load: given true"),
    (changed("units.1.load", None), "units[1].load: given null"),
    (changed("units.1.load", ...), "units[1]: given no load"),
    (changed("units.1.node", "c"), "units[1].node: given \"c\", allowed is the id of a node: one of 'a', 'b'"),
    (changed("units.1.node", ...), "units[1]: given a unit on no node"),
    (changed("units.1.node", None), "units[1].node: given a unit on no node"),
    (changed("units.1.node", ["a"]), 'units[1].node: given ["a"]'),
    (changed("units.1.id", "u"), 'units[1].id: given the id "u" again, allowed is ids that differ (it is units[0]\'s)'),
    (changed("units.1.id", 1.5), "units[1].id: given 1.5"),
    (changed("units.1.id", None), "units[1].id: given null"),
    (changed("units.1.pinned", 1), "units[1].pinned: given 1, allowed is true or false"),
    (changed("units.1.pined", True), "units[1]: given the key 'pined', allowed is 'pinned' (nearest)"),
    (changed("units.2.allowed", []), "units[2].allowed: given [], allowed is a list of at least one node"),
    (changed("units.2.allowed", "a"), 'units[2].allowed: given "a"'),
    (changed("units.2.allowed", ["a", "z"]), 'units[2].allowed[1]: given "z"'),
    (changed("units.2.load", {"cpu": 1}), 'units[2].load: given {"cpu": 1}'),
    (changed("units.0.load", {"cpu": 1}), "units[1].load: given 1.0, allowed is the dimensions cpu"),
    (changed("units.0.load", {}), "units[0].load: given {}, allowed is at least one dimension"),
    (changed("nodes.0.capacity", 0), "nodes[0].capacity: given 0, allowed is a number above 0"),
    (changed("nodes.0.capacity", -2), "nodes[0].capacity: given -2"),
    (changed("nodes.0.capacity", {"cpu": 1}), 'nodes[0].capacity: given {"cpu": 1}'),
    (changed("nodes.1.id", "a"), 'nodes[1].id: given the id "a" again'),
    (changed("nodes.1.zone", "x"), "nodes[1]: given the key 'zone'"),
    (changed("settings", [1]), "settings: given [1], allowed is an object of settings"),
    (changed("settings", {"churm": 1}), "settings: given the setting 'churm', allowed is 'churn' (nearest)"),
    (changed("settings", {"churn": -1}), "settings: churn: given -1, allowed is a number of at least 0"),
    (changed("settings", {"gap": "x"}), 'settings: gap: given "x"'),
    (changed("settings", {"limit": 0}), "settings: limit: given 0, allowed is a number above 0"),
    (changed("settings", {"limit": {"cpu": 1}}), "settings: limit: given the dimension 'cpu'"),
    (changed("settings", {"cooling": ["nobody"]}), 'settings: cooling: given "nobody"'),
    (changed("settings", {"cooling": "u"}), 'settings: cooling: given "u"'),
    (changed("settings", {"target": 2}), "settings: least_moves: given target 2"),
    (changed("settings", {"effort": "much"}), "settings: policy settings: given"),
    (changed("settings", []), "settings: given [], allowed is an object of settings"),
    (changed("settings", False), "settings: given false, allowed is an object of settings"),
    (changed("settings", {"cooling": False}), "settings: cooling: given false, allowed is a list of unit ids"),
    (changed("settings", {"limit": {"": 1}}), "settings: limit: given the dimension ''"),
    (changed("settings", {"churn": 10**400}), "settings: churn: given 1000"),
    (changed("settings", {"limit": {"load": 10**400}}), "settings: limit: given 1000"),
    (changed("settings", {"gain": 10**400}), "settings: gain: given 1000"),
    (changed("settings", {"ceiling": 10**400}), "settings: ceiling: given 1000"),
    (changed("units.2.id", "\ud800"), 'units[2].id: given "\\ud800", allowed is whole characters'),
    (changed("nodes.1.capacity", 1.7e308), "nodes: given capacities that are too unlike to be compared"),
    (
        {"nodes": [{"id": "a", "capacity": 1e-200}, {"id": "b", "capacity": 1e200}], "units": GOOD["units"]},
        "nodes: given capacities that are too unlike to be compared",
    ),
    (
        {
            "nodes": [{"id": "True", "capacity": 1}],
            "units": [{"id": i, "node": "True", "load": 1, "allowed": [n]} for i, n in enumerate(["True", True])],
        },
        "units[1].allowed[0]: given true",
    ),
    (changed("node", []), "the file: given the key 'node', allowed is 'nodes' (nearest)"),
]


@pytest.mark.parametrize(("content", "says"), [pytest.param(c, s, id=s[:60]) for c, s in BAD])
def test_bad_input_is_one_sentence_with_its_place(evenflow, tmp_path, content, says):
    ended = evenflow("plan", written(tmp_path, content), "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.startswith(f"evenflow: {tmp_path / 'plan.json'}: ")
    assert says in ended.err
    assert len(ended.err) < 500


def test_files_that_cannot_be_read(evenflow, tmp_path):
    for path in (tmp_path / "missing.json", tmp_path):
        ended = evenflow("plan", path)
        assert (ended.code, ended.out) == (2, "")
        assert "FILE: given" in ended.err
    (tmp_path / "latin.json").write_bytes(b'{"nodes": "\xe9"}')
    assert "no UTF-8" in evenflow("plan", tmp_path / "latin.json").err


def test_too_many_units_are_refused_before_they_are_parsed(evenflow, tmp_path, monkeypatch):
    from evenflow import planfile

    monkeypatch.setattr(planfile, "MOST_UNITS", 2)
    ended = evenflow("plan", written(tmp_path, GOOD))
    assert (ended.code, ended.out) == (2, "")
    assert "units: given more than 2 units, allowed is at most 2" in ended.err


@pytest.mark.long
def test_a_million_units_in_twenty_seconds_and_two_gibibytes(tmp_path):
    import numpy as np

    rng = np.random.default_rng(1)
    load, home = rng.exponential(size=1_000_000), (2000 * rng.random(1_000_000) ** 2).astype(int)
    request = {
        "nodes": [{"id": f"n{n}", "capacity": float(c)} for n, c in enumerate(rng.uniform(1, 10, 2000))],
        "units": [
            {"id": f"u{i}", "node": f"n{h}", "load": w}
            for i, (h, w) in enumerate(zip(home.tolist(), load.tolist(), strict=True))
        ],
    }
    path = written(tmp_path, request)
    program = (
        "import resource, sys, time\nfrom evenflow.cli.main import main\n"
        "code = main(['plan', sys.argv[1], '--json'])\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)\nsys.exit(code)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    seconds, kilobytes = map(float, ended.stderr.split())
    result = json.loads(ended.stdout)
    assert result["gap"] <= 0.01
    assert result["moved_load_pct"] <= 1.2 * result["needed_load_pct"]
    assert seconds < 20
    assert kilobytes < 2 * 1024 * 1024
