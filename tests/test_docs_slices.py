"""The pages about slices and policies say what the code does."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from evenflow.slices import handoff, session
from evenflow.slices.diagram import draw_handoff, draw_session

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of one language; a closing fence opens nothing."""
    fenced = re.findall(r"^```(\w*)\n(.*?)\n```$", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [text for name, text in fenced if name == language]


def test_the_diagrams_are_those_of_the_tables():
    # lines, not their order: a test that takes a row out of a table puts it back at the end
    shown = [sorted(block.splitlines()) for block in blocks("slices.md", "mermaid")]
    assert shown == [sorted(drawn.splitlines()) for drawn in (draw_handoff(), draw_session())]


def test_a_diagram_has_every_row_and_nothing_else():
    for table in (handoff.TABLE, handoff.LITERAL):
        arrows = [line for line in draw_handoff(table).splitlines() if "-->" in line and "[*]" not in line]
        assert len(arrows) == len(table)
    rows = [key for key in session.TABLE if key[0] is not session.Phase.GRANTING]
    arrows = [line for line in draw_session().splitlines() if "-->" in line and "[*]" not in line]
    assert len(arrows) == len(rows)
    assert draw_session(session.LITERAL).endswith("done --> [*]")  # the thesis has no rollback


def test_the_newcomers_policy_runs(evenflow, tmp_path, monkeypatch):
    code = blocks("write-a-policy.md", "python")[0]
    (tmp_path / "my_policy.py").write_text(code)
    assert len(code.split('"""\n')[1].splitlines()) <= 16  # short, as the page says
    (command,) = [b for b in blocks("write-a-policy.md", "") if b.startswith("evenflow experiment")]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_policy", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = command.split()[1:]
    for word in ("seconds=40", "rate=150", "nodes=4", "slices=64", "sensors=300", "gateways=2", "zipf=0.8"):
        words += ["--set", word]
    ended = evenflow(*words, "--json")
    sys.modules.pop("my_policy", None)
    assert ended.code == 0, ended.err
    (row,) = json.loads(ended.out)["rows"]
    assert (row["lost"], row["duplicated"], row["owner_violations"]) == (0, 0, 0)
    assert row["moves"] > 20
    assert row["max_over_mean"] < 1.1


def test_a_policy_that_cannot_be_found_is_refused(evenflow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = evenflow("experiment", "slices-skew", "--set", "policy=no_such_policy:Mine", "--set", "seconds=20")
    assert (ended.code, ended.out) == (2, "")
    assert "module:Class" in ended.err
