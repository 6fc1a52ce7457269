from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from evenflow.cli import checks

EVENFLOW = [sys.executable, "-m", "evenflow"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["docter"], "'doctor'"), (["--colour"], "--colour"), (["doctor", "--jsn"], "--json"), (["doctor", "x"], "x")],
)
def test_usage_errors_are_one_sentence_and_exit_2(evenflow, words, expected):
    ended = evenflow(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.startswith("evenflow: ")
    assert ". " not in ended.err
    assert expected in ended.err


def test_without_a_command_the_help_is_shown(evenflow):
    bare, asked = evenflow(), evenflow("--help")
    assert bare.code == asked.code == 0
    assert bare.out == asked.out
    for command in ("doctor", "experiment"):
        assert command in asked.out


def test_version(evenflow):
    ended = evenflow("--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.strip().replace(".", "").isdigit()


def test_process_exit_codes():
    assert subprocess.run([*EVENFLOW, "--version"], capture_output=True, check=False).returncode == 0
    refused = subprocess.run([*EVENFLOW, "docter"], capture_output=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, b"")


@pytest.mark.parametrize("words", ["--help", "doctor", "doctor --json"])
def test_a_closed_pipe_is_no_bug(words):
    # the reader ends before the command writes
    line = f"{{ sleep 0.1; '{sys.executable}' -m evenflow {words}; echo code=$? >&2; }} | true"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ended.stderr == "code=141\n"


def test_help_is_fast_and_loads_nothing_heavy():
    program = "import sys; from evenflow.cli.main import main; main(['--help']); print(*sys.modules)"
    begun = time.perf_counter()
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    seconds = time.perf_counter() - begun
    loaded = set(shown.splitlines()[-1].split())
    assert not loaded & {"numpy", "pyarrow", "bokeh", "pyspark", "pandas", "rich.markdown"}
    assert seconds < 3  # 0.3 s on an idle machine; the modules above are what would make it slow


def test_doctor_says_everything_in_one_object(evenflow):
    ended = evenflow("doctor", "--json")
    assert (ended.code, ended.err) == (0, "")
    answer = json.loads(ended.out)
    assert answer["ok"] is True
    assert {check["part"] for check in answer["checks"]} >= {"core", "spark", "dds", "web", "fast"}
    assert all(set(check) == {"part", "name", "ok", "found", "remedy"} for check in answer["checks"])


def test_doctor_in_words(evenflow):
    ended = evenflow("doctor")
    assert ended.code == 0
    assert "Java 17+" in ended.out


def test_doctor_says_how_to_get_what_is_missing(evenflow, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(checks.metadata, "requires", lambda _: ["nosuchpackage>=1; extra == 'dds'", "numpy<1"])
    ended = evenflow("doctor", "--json")
    assert ended.code == 1  # numpy belongs to the core
    remedies = {check["name"]: check["remedy"] for check in json.loads(ended.out)["checks"]}
    assert "openjdk-17" in remedies["Java 17+"]
    assert remedies["nosuchpackage>=1"] == 'pip install "evenflow[dds]"'
    assert remedies["numpy<1"] == 'pip install "evenflow"'


def test_a_module_in_the_current_directory_can_be_named(tmp_path, monkeypatch: pytest.MonkeyPatch, evenflow):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    evenflow("--version")
    assert sys.path[-1] == str(tmp_path)
