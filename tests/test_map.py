"""The map of the code in docs/architecture.md is the code's: its packages, their sentences, and the picture."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_MODULES = 25


@pytest.fixture(scope="module")
def code_map():
    spec = importlib.util.spec_from_file_location("code_map", ROOT / "tools" / "map.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_packages_form_no_cycle_and_each_has_a_sentence(code_map):
    assert not code_map.faults(code_map.graph())


def test_a_cycle_and_drivers_that_know_each_other_are_found(code_map):
    packages = code_map.graph()
    packages.add_edge("core", "slices")
    packages.add_edge("sim", "spark.kit")
    found = code_map.faults(packages)
    assert any(fault.startswith("cycle") for fault in found)
    assert any("sim -> spark.kit" in fault for fault in found)


def test_the_page_lists_every_package_with_its_own_sentence(code_map):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \|$", page, re.MULTILINE))
    packages = code_map.graph()
    assert set(listed) == set(packages)
    assert {name: code_map.sentence(name) for name in packages} == listed


def test_the_picture_shows_the_packages_of_now(code_map):
    shown = (ROOT / "docs" / "map.svg").read_text(encoding="utf-8")
    assert code_map.signature(code_map.graph()) in shown, "make map draws it again"


def test_no_package_is_crowded(code_map):
    folders = {path.parent for path in code_map.SOURCE.rglob("*.py")}
    counts = {folder.relative_to(code_map.SOURCE).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    assert not {name: count for name, count in counts.items() if count > MOST_MODULES}
