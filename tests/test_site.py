"""The documentation as a site: it builds without a warning, leads nowhere wrong, and prints what the commands print."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evenflow.brokers.status import LOCAL, draw_status
from evenflow.operators.diagram import draw
from evenflow.slices.diagram import draw_handoff, draw_session

ROOT = Path(__file__).parents[1]
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)
    return [found for name, found in fenced if name == language]


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("site_tool", ROOT / "tools" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines(text: str) -> list[str]:
    """Leave out what a clock says, and blanks at the end of a line."""
    text = re.sub(r"planned in [\d.]+ s", "planned", text)
    return [line.rstrip() for line in text.splitlines() if line.strip() and not re.fullmatch(r"\s*[\d.]+ s\s*", line)]


def test_the_quickstart_prints_what_its_commands_print(evenflow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (cluster,) = blocks(QUICKSTART, "json")
    Path("cluster.json").write_text(cluster)
    shown = [block.split("\n", 1) for block in blocks(QUICKSTART, "console")]
    told = {command.removeprefix("$ evenflow "): output for command, output in shown if "evenflow " in command}
    assert len(told) == 2
    for command, output in told.items():
        ended = evenflow(*command.split())
        assert (ended.code, lines(ended.out)) == (0, lines(output))


def test_the_diagrams_of_the_concepts_are_those_of_the_tables():
    shown = blocks((ROOT / "docs" / "concepts.md").read_text(encoding="utf-8"), "mermaid")
    drawn = [draw_handoff(), draw_session(), draw("giver"), draw_status()]
    assert [sorted(b.splitlines()) for b in shown] == [sorted(d.splitlines()) for d in drawn]
    assert sum("-->" in line and "[*]" not in line for line in draw_status().splitlines()) == len(LOCAL)


def test_a_link_that_leads_nowhere_and_a_foreign_script_are_found(site, tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a> <a href="b.html#gone">x</a> <a href="c.html">x</a>'
        '<script src="https://example.org/x.js"></script> <a href="https://example.org/">x</a>'
    )
    (tmp_path / "b.html").write_text('<h2 id="here">x</h2>')
    assert list(site.check(tmp_path)) == [
        "a.html: b.html#gone has no such anchor",
        "a.html: c.html does not exist",
        "a.html: fetches https://example.org/x.js",
    ]


@pytest.mark.long
def test_the_site_builds_strictly_and_every_page_is_in_its_navigation(site):
    command = [sys.executable, str(ROOT / "tools" / "site.py")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "No issues found" in built.stdout + built.stderr
    assert "Warning" not in built.stdout + built.stderr
    config = (ROOT / "zensical.toml").read_text()
    named = set(re.findall(r'"([\w-]+\.md)"', config))
    assert named == {page.name for page in site.SOURCE.glob("*.md")}
    assert "https://unpkg" not in (site.HTML / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results():
    spec = importlib.util.spec_from_file_location("results_tool", ROOT / "tools" / "results.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["results_tool"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["results_tool"]


def test_the_page_of_results_says_what_its_command_gives(results, tmp_path):
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    (join,) = [c for c in results.COMMANDS if c.words == "experiment slices-join"]
    results.run(join, tmp_path / "result.json")
    result = json.loads((tmp_path / "result.json").read_text())
    assert results.section(join, result) in page
    assert set(re.findall(r"^evenflow (.*)$", page, re.MULTILINE)) <= {c.words for c in results.COMMANDS}
    with pytest.raises(SystemExit, match="rows without no_such_field"):
        results.section(replace(join, fields=("no_such_field",)), result)


def test_a_command_that_fails_ends_everything(results, tmp_path):
    with pytest.raises(SystemExit, match="exit code 2"):
        results.run(results.Command("experiment no-such-name", "", ()), tmp_path / "result.json")
    assert not (tmp_path / "result.json").exists()
