"""What the documents tell a person to type works."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest

from evenflow.experiments import registry

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if blocks(p, "python")], ids=lambda p: p.name)
def test_python_examples_run(path):
    names: dict[str, object] = {}  # the blocks of one page continue each other
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for block in blocks(path, "python"):
            if block.lstrip().startswith(">>>"):
                session = doctest.DocTestParser().get_doctest(block, names, path.name, str(path), 0)
                assert doctest.DocTestRunner().run(session, clear_globs=False).failed == 0, printed.getvalue()
                names.update(session.globs)
            else:
                exec(compile(block, str(path), "exec"), names)
    assert printed.getvalue() or path.name != "README.md"


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for path in DOCUMENTS
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named <= targets


def test_commands_exist(evenflow):
    lines = {
        line.split("  ")[0].strip()
        for path in DOCUMENTS
        for block in blocks(path, "")
        for line in block.splitlines()
        if line.startswith("evenflow ")
    }
    known = {experiment.name: experiment for experiment in registry.experiments()}
    for line in sorted(lines):
        words = shlex.split(line)[1:]
        if words[0] == "experiment" and not words[1].startswith("-"):
            assert words[1] in known, line
            words = words[:2]
        assert evenflow(*[w for w in words[:2] if not w.endswith((".json", ".jsonl"))], "--help").code == 0, line
