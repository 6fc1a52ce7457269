"""The repository speaks of the product alone, and what it says about itself is true."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HERE = "tests/test_repository.py"  # holds the patterns themselves

# Places of one machine, and download addresses: a clone must work anywhere, with any index.
FORBIDDEN = {
    "a place of one machine": re.compile(r"(?<![\w.~}])/(?:home|root|Users|work|opt|srv|mnt)/\w"),
    "a package index": re.compile(
        r"pypi\.org|pythonhosted\.org|--(?:extra-)?index-url|--find-links|/simple\b|file:///"
    ),
    "an address in a private network": re.compile(
        r"\b(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+(?:\.\d+)?:\d+"
    ),
}


def test_no_place_or_index_of_one_machine(tracked_files):
    found = []
    for path in tracked_files:
        name = path.relative_to(ROOT).as_posix()
        if name == HERE or path.suffix in {".gz", ".png", ".parquet"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found += [f"{name}:{number}: {what}: {line[:120]}" for what, p in FORBIDDEN.items() if p.search(line)]
    assert not found, "\n".join(found)


def test_lock_pins_every_direct_dependency_with_hashes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    names = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in wanted}
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text())
    pinned = {m[1]: entry for entry in entries if (m := re.match(r"([\w.-]+)==", entry))}
    assert names <= set(pinned), names - set(pinned)
    assert all("--hash=sha256:" in entry for entry in pinned.values())


@pytest.mark.parametrize("name", [".ci/run", "tools/env.sh"])
def test_programs_can_be_started(name):
    assert os.access(ROOT / name, os.X_OK)


def test_documents_have_one_sentence_per_line(tracked_files):
    found = []
    for path in tracked_files:
        if path.suffix != ".md":
            continue
        fenced = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            fenced ^= line.lstrip().startswith("```")
            words = re.sub(r"`[^`]*`|\b(?:e\.g|i\.e|al|vs|cf|No|Fig|Eq|Sec)\.", "", line)
            if not fenced and not line.lstrip().startswith("|") and re.search(r"[a-z)][.?!] +[A-Z]", words):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line[:100]}")
    assert not found, "\n".join(found)


def test_links_in_documents_lead_somewhere(tracked_files):
    targets = [
        (path, target)
        for path in tracked_files
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
        if not target.startswith(("http://", "https://", "mailto:"))
    ]
    broken = [f"{path.relative_to(ROOT)}: {target}" for path, target in targets if not (path.parent / target).exists()]
    assert not broken, "\n".join(broken)


def test_every_warning_is_an_error():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert options["filterwarnings"][0] == "error"
