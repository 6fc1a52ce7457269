"""The page about subscriptions says what the code does; its Python examples run with those of the other pages."""

from __future__ import annotations

import re
from pathlib import Path

from evenflow.subscriptions.covering import relation
from evenflow.subscriptions.language import NUMBER_OPERATORS, STRING_OPERATORS, parse_publication, parse_subscription

PAGE = (Path(__file__).parents[2] / "docs" / "subscriptions.md").read_text(encoding="utf-8")


def test_the_relations_are_true():
    rows = re.findall(r"^\| `(.*)` \| `(.*)` \| (\w+) \|$", PAGE, re.MULTILINE)
    assert {row[2] for row in rows} == {"equal", "covers", "covered", "intersects", "disjoint"}
    for a, b, expected in rows:
        assert relation(parse_subscription(a), parse_subscription(b)) == expected, (a, b)


def test_every_operator_is_in_the_table():
    table = PAGE.split("## Operators")[1].split("\n- ")[0]
    for operator in (*STRING_OPERATORS, *NUMBER_OPERATORS):
        assert f"`{operator}`" in table


def test_the_first_example_is_in_the_language():
    publication, subscription = re.findall(r"^(\[class,.*\]) ", PAGE, re.MULTILINE)
    assert parse_publication(publication)["symbol"] == "YHOO"
    assert len(parse_subscription(subscription).predicates) == 3
