from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow.subscriptions.covering import covers
from evenflow.subscriptions.language import (
    NUMBER_OPERATORS,
    STRING_OPERATORS,
    format_publication,
    format_subscription,
    matches,
    parse_publication,
    parse_subscription,
)

NUMBERS = ["0", "-0.0", "1", "1.5", "-7", "+2", ".5", "3e2", "9007199254740992", "9007199254740993", "2e53"]
STRINGS = ["''", "'a'", "'ab'", "'abc'", "'é'", r"'it\'s'", "'],['", "'1'"]


def random_predicate(chance):
    name = chance.choice(["a", "b", "größe"])
    kind = chance.random()
    if kind < 0.5:
        return f"[{name},{chance.choice(list(NUMBER_OPERATORS))},{chance.choice(NUMBERS)}]"
    if kind < 0.95:
        return f"[{name},{chance.choice(list(STRING_OPERATORS))},{chance.choice(STRINGS)}]"
    return f"[{name},eq,*]"


def random_subscription(chance):
    return ",".join(random_predicate(chance) for _ in range(chance.choice([1, 1, 2, 3])))


def random_publication(chance):
    names = chance.sample(["a", "b", "größe", "c"], chance.randrange(1, 5))
    return ",".join(f"[{name},{chance.choice(NUMBERS + STRINGS)}]" for name in names)


@pytest.fixture
def files(tmp_path):
    def files(subscriptions, publications=()):
        subs, pubs = tmp_path / "subs.txt", tmp_path / "pubs.txt.gz"
        subs.write_text("".join(f"{name}\t{text}\n" for name, text in subscriptions.items()))
        pubs.write_bytes(gzip.compress("\n".join(publications).encode()))
        return subs, pubs

    return files


@pytest.mark.parametrize("seed", range(25))
def test_match_equals_brute_force(evenflow, files, seed):
    chance = random.Random(seed)
    names = chance.sample(range(-5, 400), chance.randrange(60))
    words = seed % 3 == 0
    texts = {f"{'é' if words else ''}{name}": random_subscription(chance) for name in names}
    publications = [random_publication(chance) for _ in range(chance.randrange(40))]
    ended = evenflow("match", *files(texts, publications), "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    order = sorted(texts) if words else sorted(texts, key=int)
    parsed = {name: parse_subscription(texts[name]) for name in order}
    read = [parse_publication(text) for text in publications]
    expected = [[name for name in order if matches(parsed[name], publication)] for publication in read]
    assert found == {
        "publications": len(publications),
        "subscriptions": len(texts),
        "pairs": sum(map(len, expected)),
        "matches": expected,
    }


@pytest.mark.parametrize("seed", range(15))
def test_cover_equals_the_definition(evenflow, files, seed):
    chance = random.Random(seed)
    names = chance.sample(range(400), chance.randrange(1, 40))
    texts = {str(name): random_subscription(chance) for name in names}
    ended = evenflow("cover", files(texts)[0], "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    parsed = {name: parse_subscription(texts[str(name)]) for name in sorted(names)}
    over = {a: {b for b in parsed if covers(parsed[a], parsed[b])} for a in parsed}
    never = [b for b in parsed if all(b in over[a] for a in parsed) and covers(never_matched(), parsed[b])]
    css = [
        b
        for b in parsed
        if b not in never and not any(b in over[a] and (a not in over[b] or a < b) for a in parsed if a != b)
    ]
    assert (found["css"], found["contradictions"]) == ([str(a) for a in css], [str(a) for a in never])
    # Whoever follows the edges down from a finds what a covers, but for what is equal to it.
    below = {a: {a} for a in parsed}
    for _ in parsed:
        for a, b in found["edges"]:
            below[int(a)] |= below[int(b)]
    tops = [a for a in parsed if a == min(b for b in over[a] if a in over[b])]
    for a in tops:
        assert below[a] == over[a]
    assert len({tuple(edge) for edge in found["edges"]}) == len(found["edges"])


def never_matched():
    return parse_subscription("[a,=,1],[a,=,2]")


def test_the_example_of_the_thesis(evenflow, files):
    texts = [
        "[class,eq,'STOCK']",
        "[class,eq,'STOCK'],[symbol,eq,'YHOO']",
        "[class,eq,'STOCK'],[volume,>,1000]",
        "[class,eq,'SPORTS']",
        "[class,eq,'SPORTS'],[type,eq,'RACING']",
    ]
    ended = evenflow("cover", files(dict(enumerate(texts, start=1)))[0], "--json")
    assert json.loads(ended.out) == {
        "subscriptions": 5,
        "css": ["1", "4"],
        "edges": [["1", "2"], ["1", "3"], ["4", "5"]],
        "contradictions": [],
    }


def test_a_person_can_read_the_results(evenflow, files):
    subs, pubs = files({"7": "[a,>,1]", "8": "[a,>,2]", "9": "[a,=,1],[a,=,2]"}, ["[a,2]", "[b,2]"])
    assert evenflow("match", subs, pubs).out == "1\t7\n2\t\n2 publications, 3 subscriptions, 1 pairs\n"
    shown = evenflow("cover", subs).out
    assert "3 subscriptions, 1 that no other covers:\n7\n" in shown
    assert "7 covers 8\n" in shown
    assert "contradict themselves:\n9\n" in shown


def test_malformed_lines_are_all_named_and_nothing_is_printed(evenflow, tmp_path):
    subs, pubs = tmp_path / "s", tmp_path / "p"
    subs.write_text("1\t[a,=,1]\n1\t[a,=,2]\n2\t[a,eq,1]\n")
    pubs.write_text("[a,1]\n[a,\n")
    for words in (["match", subs, pubs], ["match", subs, pubs, "--json"]):
        ended = evenflow(*words)
        assert (ended.code, ended.out) == (2, "")
        assert [line.split(": ")[0] for line in ended.err.splitlines()[1:]] == [
            f"{subs}:2:1",
            f"{subs}:3:6",
            f"{pubs}:2:4",
        ]
    ended = evenflow("cover", subs)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 3)
    subs.write_text("1\t[a,=,1\n")
    assert evenflow("cover", subs).err == f"evenflow: {subs}:1:9: expected ], found the end\n"


@pytest.mark.parametrize(
    "words",
    [["cover", "none"], ["cover"], ["match", "none"], ["match", "-", "-"], ["cover", "x", "--jsn"], ["cover", "/"]],
)
def test_bad_input_is_one_sentence(evenflow, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = evenflow(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("place", [0, 1])
def test_standard_input(files, place):
    paths = [str(path) for path in files({"1": "[a,str-prefix,'é']"}, ["[a,'éa']"])]
    content = Path(paths[place]).read_bytes()
    paths[place] = "-"
    words = [sys.executable, "-m", "evenflow", "match", *paths, "--json"]
    ended = subprocess.run(words, input=content, capture_output=True, check=True)
    assert json.loads(ended.stdout)["matches"] == [["1"]]


def test_many_go_through_the_compiled_kernels(evenflow, files):
    """Enough for every engine to take its way for large sets."""
    chance = random.Random(3)
    texts = {str(n): f"[s,eq,'{chance.choice('ABC')}'],[v,{chance.choice('<>')},{n % 997}]" for n in range(5000)}
    ended = evenflow("cover", files(texts)[0], "--json")
    found = json.loads(ended.out)
    parsed = {name: parse_subscription(text) for name, text in texts.items()}
    roots = [parsed[name] for name in found["css"]]
    assert len(roots) == 6
    for name in chance.sample(sorted(texts), 200):
        assert any(covers(root, parsed[name]) for root in roots)
    publications = [format_publication({"s": chance.choice("ABC"), "v": chance.randrange(997)}) for _ in range(20)]
    found = json.loads(evenflow("match", *files(texts, publications), "--json").out)
    for text, ids in zip(publications, found["matches"], strict=True):
        publication = parse_publication(text)
        assert ids == [name for name, subscription in parsed.items() if matches(subscription, publication)]
    assert found["pairs"] == sum(map(len, found["matches"]))
    assert all(format_subscription(subscription) == texts[name] for name, subscription in parsed.items())
