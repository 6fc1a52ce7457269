"""``--web``: the page is there while the run goes on, and gone afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from traces import lanes, write

PROGRAM = """
import pathlib, sys
from evenflow.cli.served import served
with served(pathlib.Path(sys.argv[1])):
    sys.stdin.readline()
"""


def test_a_page_waits_for_its_run_and_ends_with_it(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        write(tmp_path, lanes(3))
        address = process.stderr.readline().split()[0]
        with urllib.request.urlopen(f"{address}metrics", timeout=30) as answer:
            assert 'evenflow_node_load{node="lane-0"} 4.0' in answer.read().decode()
        process.communicate("\n", timeout=30)
    assert process.returncode == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}metrics", timeout=5)


@pytest.mark.parametrize("words", [["--web"], ["--web", "--run", "r", "--seeds", "1-2"]])
def test_a_page_needs_one_run_to_show(evenflow, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    ended = evenflow("experiment", "slices-join", *words)
    assert (ended.code, ended.out) == (2, "")
    assert "a single seed with --run DIR" in ended.err
    assert not (tmp_path / "r").exists()


def test_an_experiment_with_a_page_writes_its_trace_as_it_goes(evenflow, tmp_path):
    words = [w for key in ("rate=20", "sensors=40", "seconds=30") for w in ("--set", key)]
    ended = evenflow("experiment", "slices-join", "--run", tmp_path / "r", "--web", *words, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["rows"][0]["lost"] == 0
    assert (tmp_path / "r" / "trace.jsonl").stat().st_size > 1000


def test_a_run_directory_elsewhere_leads_to_its_requests(tmp_path):
    from evenflow.web.follow import Followed

    run = write(tmp_path / "elsewhere", lanes(2))
    (tmp_path / "check").mkdir()
    (run / "run.json").write_text(json.dumps({"experiment": "spark", "requests": str(tmp_path / "check" / "requests")}))
    assert Followed(run).requests == tmp_path / "check" / "requests"
    (tmp_path / "check").rmdir()
    assert Followed(run).requests is None  # the checkpoint is gone: nobody would look
