"""The page about operators shows the tables of the code."""

from __future__ import annotations

import re
from pathlib import Path

from evenflow.operators.diagram import TABLES, draw

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_diagrams_are_those_of_the_tables():
    shown = re.findall(r"^```mermaid\n(.*?)\n```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert [sorted(block.splitlines()) for block in shown] == [sorted(draw(name).splitlines()) for name in TABLES]
