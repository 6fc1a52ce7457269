from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("toys")

REFUSED = {
    "unknown name": (["toy-duoble"], "'toy-double'"),
    "unknown family": (["tay-double"], "'toy-double'"),
    "no name": ([], "toy-double"),
    "unknown key": (["toy-double", "--set", "node=3"], "'nodes'"),
    "no value": (["toy-double", "--set", "nodes"], "key=value"),
    "key twice": (["toy-double", "--set", "nodes=1", "--set", "nodes=2"], "twice"),
    "not a number": (["toy-double", "--set", "nodes=many"], "a whole number"),
    "a number only to Python": (["toy-double", "--set", "nodes=1_0"], "a whole number"),
    "below the range": (["toy-double", "--set", "nodes=0"], "from 1 to 1000"),
    "nan": (["toy-double", "--set", "skew=nan"], "a finite number"),
    "infinite": (["toy-double", "--set", "skew=inf"], "a finite number"),
    "negative": (["toy-double", "--set", "skew=-1"], "at least 0"),
    "no such choice": (["toy-double", "--set", "drift=jmp"], "'jump'"),
    "not a flag": (["toy-double", "--set", "verbose=maybe"], "true or false"),
    "together impossible": (["toy-double", "--set", "policy=none", "--set", "drift=slow"], "a policy that moves"),
    "option and setting": (["toy-double", "--rounds", "3", "--set", "rounds=3"], "one of the two"),
    "bad option": (["toy-double", "--rounds", "0"], "at least 1"),
    "option of another": (["toy-fail", "--rounds", "3"], "--rounds"),
    "seed and seeds": (["toy-double", "--seed", "1", "--seeds", "1-2"], "one of the two"),
    "negative seed": (["toy-double", "--seed", "-1"], "at least 0"),
    "words for a seed": (["toy-double", "--seed", "one"], "at least 0"),
    "seeds backwards": (["toy-double", "--seeds", "5-1"], "A-B"),
    "one end": (["toy-double", "--seeds", "5"], "A-B"),
    "too many seeds": (["toy-double", "--seeds", "0-1000000"], "1000000"),
    "unknown option": (["toy-double", "--sed", "1"], "--sed"),
    "a word too many": (["toy-double", "more"], "more"),
    "refused by the run": (["toy-refuse"], "another seed"),
    "refused in a worker": (["toy-refuse", "--seeds", "1-2"], "another seed"),
}


@pytest.mark.parametrize("words", [pytest.param(w, id=name) for name, w in REFUSED.items()])
def test_bad_input_is_one_sentence_and_exit_2(evenflow, words):
    given, expected = words
    ended = evenflow("experiment", *given, "--json") if given else evenflow("experiment")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.endswith(".\n")
    assert ". " not in ended.err
    assert expected in ended.err


def test_json_is_one_object_of_the_agreed_shape(evenflow):
    ended = evenflow("experiment", "toy-double", "--seed", "3", "--set", "nodes=2", "--json")
    assert ended.code == 0
    assert ended.err == ""
    result = json.loads(ended.out)
    assert list(result) == ["experiment", "settings", "seeds", "rows", "total", "mean", "median", "max", "seconds"]
    assert result["settings"] == {
        "nodes": 2, "skew": 1.0, "drift": "jump", "verbose": False, "policy": "even_counts", "rounds": None,
    }  # fmt: skip
    assert result["seeds"] == [3]
    assert result["rows"] == [
        {"seed": 3, "items": 6, "gap": 1.5, "floor": None, "even": True, "policy": "even_counts",
         "loads": [0, 1, 2], "faults": {"loss": 3}, "thrash_pct": None}
    ]  # fmt: skip
    assert result["total"] == {"items": 6, "faults": {"loss": 3}}
    assert result["mean"] == {"items": 6.0, "gap": 1.5}


def test_several_seeds_run_in_processes_and_keep_their_order(evenflow):
    ended = evenflow("experiment", "toy-double", "--seeds", "1-9", "--json")
    result = json.loads(ended.out)
    assert [row["seed"] for row in result["rows"]] == list(range(1, 10)) == result["seeds"]
    assert result["total"] == {"items": 90, "faults": {"loss": 45}}
    assert result["median"] == {"items": 10.0, "gap": 1.25, "floor": 1.0}
    assert result["max"]["gap"] == 2.25


def test_default_seed_is_1(evenflow):
    assert json.loads(evenflow("experiment", "toy-double", "--json").out)["seeds"] == [1]


def test_own_option_sets_its_setting(evenflow):
    ended = evenflow("experiment", "toy-double", "--rounds", "7", "--json")
    assert json.loads(ended.out)["settings"]["rounds"] == 7


def test_help_names_settings_and_own_options(evenflow):
    shown = evenflow("experiment", "toy-double", "--help")
    assert shown.code == 0
    for text in ("--rounds", "how many rounds", "nodes=4", "jump|slow", "Doubles the seed."):
        assert text in shown.out
    assert "toy-fail" in evenflow("experiment", "--help").out


def test_table_says_the_numbers_in_words(evenflow):
    one = evenflow("experiment", "toy-double", "--seed", "600")
    assert one.code == 0
    assert "1,200" in one.out
    assert "even" in one.out
    many = evenflow("experiment", "toy-double", "--seeds", "1-2")
    assert "median" in many.out
    assert "thrash pct" not in many.out  # never a number, so no line


@pytest.mark.parametrize("seeds", [["--seed", "1"], ["--seeds", "1-2"]])
def test_a_bug_is_not_bad_input(evenflow, seeds):
    with pytest.raises(RuntimeError, match="found a bug"):
        evenflow("experiment", "toy-fail", *seeds)


def test_run_directory_of_one_seed(evenflow, tmp_path: Path):
    run = tmp_path / "new" / "run"
    assert evenflow("experiment", "toy-double", "--seed", "5", "--run", run, "--json").code == 0
    written = json.loads((run / "run.json").read_text())
    assert written["experiment"] == "toy-double"
    assert written["settings"]["nodes"] == 4
    assert written["seeds"] == [5]
    assert {"python", "evenflow", "numpy"} <= set(written["versions"])
    assert (run / "trace.jsonl").read_text().splitlines() == [
        '{"at":0.0,"kind":"note","nodes":4}',
        '{"at":1.5,"kind":"note","load":5.0}',
    ]


def test_run_directory_of_several_seeds_is_in_order_and_repeatable(evenflow, tmp_path: Path):
    traces = []
    for name in ("a", "b", "a"):  # a run directory may be used again
        evenflow("experiment", "toy-double", "--seeds", "1-4", "--run", tmp_path / name)
        traces.append((tmp_path / name / "trace.jsonl").read_bytes())
        assert sorted(p.name for p in (tmp_path / name).iterdir()) == ["run.json", "trace.jsonl"]
    assert traces[0] == traces[1] == traces[2]
    seeds = [json.loads(line)["seed"] for line in traces[0].decode().splitlines()]
    assert seeds == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("option", ["--run", "--report"])
def test_a_file_is_not_a_directory(evenflow, tmp_path: Path, option):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        ended = evenflow("experiment", "toy-double", option, path)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_directory_with_other_files_is_not_overwritten(evenflow, tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("mine")
    ended = evenflow("experiment", "toy-double", "--run", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_page_that_somebody_else_wrote_is_not_overwritten(evenflow, tmp_path: Path):
    (tmp_path / "index.html").write_text("mine")
    ended = evenflow("experiment", "toy-double", "--report", tmp_path)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert (tmp_path / "index.html").read_text() == "mine"
    (tmp_path / "index.html").unlink()
    assert [evenflow("experiment", "toy-double", "--report", tmp_path).code for _ in range(2)] == [0, 0]


def test_a_page_that_cannot_be_written_is_refused_before_the_run(evenflow, tmp_path: Path):
    (tmp_path / "index.html").mkdir()
    ended = evenflow("experiment", "toy-double", "--report", tmp_path)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


def test_interrupt_ends_cleanly(tmp_path: Path):
    program = (
        "import sys; from evenflow.experiments import registry; registry.FAMILIES = {'toy': 'toy_experiments'}; "
        "from evenflow.cli.main import main; sys.exit(main())"
    )
    path = str(Path(__file__).parents[1] / "toys")
    running = subprocess.Popen(
        [sys.executable, "-c", program, "experiment", "toy-slow", "--seeds", "1-4", "--run", str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    parts = tmp_path / "run"
    deadline = time.monotonic() + 60
    while not list(parts.glob("*.part")) and time.monotonic() < deadline:
        time.sleep(0.05)
    begun = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: every process of the group
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert time.monotonic() - begun < 20
    assert out == ""
    assert "Traceback" not in err
    assert not list(parts.glob("*.part"))
