from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenflow.cli import checks

ROOT = Path(__file__).parents[2]
OFFLOAD = ROOT / "tests" / "brokers" / "padres-offload-sample-1.json"
PIPELINE = ROOT / "examples" / "pipeline.toml"
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


def test_doctor_in_words_names_the_extra(evenflow, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checks.metadata, "requires", lambda _: ["nosuchpackage>=1; extra == 'dds'"])
    monkeypatch.setenv("COLUMNS", "200")
    ended = evenflow("doctor")
    assert 'pip install "evenflow[dds]"' in ended.out


def test_names_are_printed_as_they_are(evenflow, monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Brackets are rich's markup and words between colons its emoji; in a name they are neither."""
    monkeypatch.setenv("COLUMNS", "300")
    a, b = "[red]a[/] [0]", ":cat:"
    units = [{"id": f"[u{n}]:dog:", "node": a, "load": 1} for n in range(4)]
    nodes = [{"id": a, "capacity": 1}, {"id": b, "capacity": 1}]
    (tmp_path / "plan.json").write_text(json.dumps({"nodes": nodes, "units": units}))
    shown = evenflow("plan", tmp_path / "plan.json").out
    for name in (a, b, "[u", ":dog:"):
        assert name in shown
    request = json.loads(OFFLOAD.read_text())["input"]
    for subscription in request["subscriptions"]:
        subscription["id"] = f"[bold]{subscription['id']}:dog:"
    (tmp_path / "offload.json").write_text(json.dumps(request))
    shown = evenflow("offload", tmp_path / "offload.json").out
    assert "[bold]" in shown
    assert ":dog:" in shown


EXTRAS = {
    "web .": "web",
    "demo": "spark",
    "run pipeline.toml": "spark",
    "bench spark-state": "spark",
    "experiment slices-kill": "spark",
    "experiment slices-rounds --spark": "spark",
    "experiment ami-live": "spark",
    "experiment dlber-live": "spark",
    "experiment padres-live": "spark",
    "bench dds": "dds",
    "balancer": "dds",
    "node --app a:B --name n": "dds",
    "experiment dds-nodes": "dds",
}


def test_a_command_without_its_extra_says_which_to_install(tmp_path):
    for file in (PIPELINE, PIPELINE.with_suffix(".py")):
        (tmp_path / file.name).write_text(file.read_text())
    program = (
        "import sys; sys.modules |= dict.fromkeys(['prometheus_client', 'pyspark', 'cyclonedds'])\n"  # cannot be imported
        "from evenflow.cli.main import main\n"
        f"for words in {list(EXTRAS)!r}: print(main(words.split()))"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    said = ended.stderr.splitlines()
    assert (ended.stdout.split(), len(said)) == (["2"] * len(EXTRAS), len(EXTRAS)), ended.stderr
    for extra, sentence in zip(EXTRAS.values(), said, strict=True):
        assert f"evenflow[{extra}]" in sentence


def test_a_missing_module_of_no_extra_is_a_bug(evenflow, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setitem(sys.modules, "evenflow.web.follow", None)
    with pytest.raises(ModuleNotFoundError):
        evenflow("web", tmp_path)


def test_a_module_in_the_current_directory_can_be_named(tmp_path, monkeypatch: pytest.MonkeyPatch, evenflow):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    evenflow("--version")
    assert sys.path[-1] == str(tmp_path)
