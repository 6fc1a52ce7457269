from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.toml"

GOOD = """
[source]
format = "parquet"
[balance]
by = "device"
[process]
function = "person:update"
output = "device long"
[sink]
format = "parquet"
path = "out"
checkpoint = "check"
"""
PERSON = "def update(rows, state): ...\ndef one(rows): ...\nnumber = 1\n"

REFUSED = {
    "unknown key": ("by =", "slizes = 8\nby =", "pipeline.toml: [balance] slizes: given an unknown key", "'slices'"),
    "key of another table": ("by =", "path = 'x'\nby =", "[balance] path", "unknown key"),
    "unknown table": ("[sink]", "[zink]", "pipeline.toml: [zink]", "'sink'"),
    "missing table": ('[source]\nformat = "parquet"', "", "pipeline.toml: [source]", "a table"),
    "missing key": ('output = "device long"', "", "[process] output", "needed"),
    "not a table": ("[source]", "spark = 3\n[source]", "pipeline.toml: spark", "a table"),
    "words for a number": ("by =", "slices = 'many'\nby =", "[balance] slices: given 'many'", "a whole number"),
    "a flag for a number": ("by =", "lanes = true\nby =", "[balance] lanes", "a whole number"),
    "a list of numbers": ('by = "device"', "by = [1]", "[balance] by", "list of texts"),
    "an option that is a list": ("[balance]", "options = { a = [1] }\n[balance]", "[source] options.a", "a number"),
    "no such policy": ("by =", "policy = 'least_move'\nby =", "[balance] policy", "'least_moves'"),
    "no such load": ("by =", "load = 'cpus'\nby =", "[balance] load", "'cpu'"),
    "no such mode": ("checkpoint", "mode = 'complete'\ncheckpoint", "[sink] mode", "'append'"),
    "no such trigger": ("checkpoint", "trigger = 'now'\ncheckpoint", "[sink] trigger", "'availableNow'"),
    "two functions": ("output", "map = 'person:one'\noutput", "[process]", "one of function, each and map"),
    "state without its function": (
        'function = "person:update"', "map = 'person:one'\nstate = 'person:one'", "[process] state", "function",
    ),
    "no such module": ("person:update", "nobody:update", "[process] function", "nobody"),
    "no such name": ("person:update", "person:updat", "[process] function", "'update'"),
    "not a function": ("person:update", "person:number", "[process] function", "a function"),
    "not a name": ("person:update", "update", "[process] function", "module:name"),
    "too few arguments": ("person:update", "person:one", "[process] function", "2 arguments"),
    "not TOML": ("by =", "by", "pipeline.toml", "TOML"),
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(c, id=name) for name, c in REFUSED.items()])
def test_whatever_is_wrong_is_named_before_spark_starts(evenflow, tmp_path, case):
    old, new, *expected = case
    (tmp_path / "person.py").write_text(PERSON)
    assert old in GOOD
    (tmp_path / "pipeline.toml").write_text(GOOD.replace(old, new, 1))
    ended = evenflow("run", tmp_path / "pipeline.toml", "--dry-run")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    for text in expected:
        assert text in ended.err


def test_no_file(evenflow, tmp_path):
    ended = evenflow("run", tmp_path / "pipeline.toml")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


def test_a_query_that_fails_is_told(capfd):
    from evenflow.cli.run_show import follow

    report = {"batchId": 4, "numInputRows": 7, "batchDuration": 10}
    query = SimpleNamespace(
        isActive=False,
        recentProgress=[report, report, {**report, "numInputRows": 0}],
        routes=lambda: SimpleNamespace(next_session=3),
        exception=lambda: RuntimeError("slice 3, 7 rows"),
    )
    result = follow(query)
    assert (result["ended"], result["batches"], result["rows"], result["moves"]) == ("ended", 1, 7, 3)
    assert "slice 3, 7 rows" in result["error"]


# One process, so that the JVM starts once: a dry run, the example as it ships, and one that is interrupted.
RUNS = """
import os, signal, sys, threading, time
from pathlib import Path
from evenflow.cli.main import main

example, commits = sys.argv[1], Path("runs/pipeline/checkpoint/commits")
print(main(["run", example, "--dry-run"]), Path("runs").exists())
print(main(["run", example, "--json"]))
Path("endless.toml").write_text(Path(example).read_text().replace('trigger = "availableNow"', 'trigger = "1 second"'))

def interrupt():
    while not (commits / "2").exists():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
print(main(["run", "endless.toml"]))
"""


def test_the_example_runs_and_can_be_interrupted(tmp_path):
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    ended = subprocess.run(
        [sys.executable, "-c", RUNS, str(EXAMPLE)],
        env={**os.environ, "JAVA_TOOL_OPTIONS": java},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    checked, ran, code, interrupted = ended.stdout.splitlines()
    assert (checked, code, interrupted) == ("0 False", "0", "130")
    assert json.loads(ran) | {"seconds": 0} == {
        "ended": "ended", "batches": 1, "rows": 1000, "moves": 0, "seconds": 0, "error": None,
    }  # fmt: skip
    assert "rows/s" in ended.stderr
    assert "interrupted after" in ended.stderr
    found = latest(pq.read_table(sorted((tmp_path / "runs/pipeline/out").glob("*.parquet"))).to_pylist())
    batches, rest = divmod(sum(row["n"] for row in found.values()), 1000)
    assert rest == 0
    assert batches >= 3
    wanted = expected(batches * 1000)
    assert set(found) == set(wanted)
    for device, row in wanted.items():
        assert found[device] == pytest.approx(row), device


def latest(rows):
    found = {}
    for row in sorted(rows, key=lambda row: row["n"]):
        found[row.pop("device")] = row
    return found


def expected(rows):
    """Return what a plain batch computation finds in the readings that the example generates."""
    values = defaultdict(list)
    for value in range(rows):
        device = int(50 * ((value * 7919 % 1000) / 1000) ** 3)
        values[device].append(20.0 + value * 31 % 97 / 10)
    return {d: {"n": len(v), "mean": sum(v) / len(v), "highest": max(v)} for d, v in values.items()}
