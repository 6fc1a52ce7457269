"""`evenflow offload`: the published format in, a decision out, bad input refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenflow.brokers.offload_file import answer
from evenflow.errors import BadInput
from evenflow.subscriptions.language import parse_publication, parse_subscription
from evenflow.subscriptions.press import Spectrum, and_not, count_bits

SAMPLES = sorted(Path(__file__).parent.glob("padres-offload-sample-*.json"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("bare", [False, True])
def test_sample_cases(path, bare, evenflow, tmp_path):
    case = json.loads(path.read_text())
    file = tmp_path / "case.json"
    file.write_text(json.dumps(case["input"] if bare else case))
    ended = evenflow("offload", file, "--json")
    assert ended.code == 0
    found, expected = json.loads(ended.out), case["expected"]
    assert found["offload"] == expected["offload"]
    assert found["steps"] == expected["steps"]
    for side in ("offloading_after", "accepting_after"):
        assert found[side] == pytest.approx(expected[side], abs=expected["tolerance"])


def test_a_person_reads_a_table(evenflow):
    ended = evenflow("offload", SAMPLES[0])
    assert ended.code == 0
    assert "sB" in ended.out


def good():
    return json.loads(SAMPLES[0].read_text())["input"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(algorithm="cpu"), "algorithm: given 'cpu'"),
        (lambda c: c.update(overloaded="no"), "overloaded: given 'no'"),
        (lambda c: c.pop("press"), "no 'press'"),
        (lambda c: c["press"].update(samples=-1), "press.samples: given -1"),
        (lambda c: c["offloading"].update(output_total=0), "offloading.output_total: given 0"),
        (lambda c: c["accepting"].update(cpu="high"), "accepting.cpu: given 'high'"),
        (lambda c: c["subscriptions"][0].update(bits="101"), "subscriptions[0].bits"),
        (lambda c: c["subscriptions"][1].update(id="sA"), "subscriptions[1].id"),
        (lambda c: c["subscriptions"][0].update(sub="[class"), "subscriptions[0].sub"),
        (lambda c: c["subscriptions"][0].update(subscribers=1.5), "subscriptions[0].subscribers"),
        (lambda c: c["settings"].update(delay_normalization=0), "settings.delay_normalization"),
        (lambda c: c["settings"].update(balance=0), "the key 'balance'"),
        (lambda c: c.update(subscriptions={}), "a list of objects"),
    ],
)
def test_malformed_cases_are_refused_in_one_sentence(change, words):
    case = good()
    change(case)
    with pytest.raises(BadInput) as refused:
        answer(json.dumps(case).encode(), "case.json")
    assert words in str(refused.value)
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("content", ["", "[1]", '{"input": 3}', "{", "\x00"])
def test_what_is_no_case_at_all_exits_with_two(content, evenflow, tmp_path):
    file = tmp_path / "case.json"
    file.write_text(content)
    ended = evenflow("offload", file, "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1


def test_a_missing_file_exits_with_two(evenflow, tmp_path):
    assert evenflow("offload", tmp_path / "none.json").code == 2


def test_no_samples_say_that_nothing_has_traffic():
    case = good()
    case["press"]["samples"] = 0
    for row in [*case["subscriptions"], *case["accepting_css"]]:
        row["bits"] = ""
    assert answer(json.dumps(case).encode(), "x")["offloading_after"]["input_rate"] == 20.0


def test_table_4_1_and_its_equations():
    publications = [
        parse_publication(text)
        for text in (
            "[class,'STOCK'],[volume,0]",
            "[class,'STOCK'],[volume,10]",
            "[class,'STOCK'],[volume,20]",
            "[class,'SPORTS'],[type,'racing']",
            "[class,'STOCK'],[volume,100]",
            "[class,'STOCK'],[volume,500]",
        )
    ]
    ours = {
        "[class,eq,'STOCK']": "110111",
        "[class,eq,'STOCK'],[volume,>,15]": "110100",
        "[class,eq,'STOCK'],[volume,>,150]": "100000",
        "[class,eq,'SPORTS']": "001000",
    }
    theirs = {
        "[class,eq,'STOCK'],[volume,>,50]": "110000",
        "[class,eq,'STOCK'],[volume,<,5]": "000001",
        "[class,eq,'MOVIES']": "000000",
    }
    mine = Spectrum.of([(text, parse_subscription(text)) for text in ours], publications)
    css = Spectrum.of([(text, parse_subscription(text)) for text in theirs], publications)
    assert {text: mine.text(text) for text in ours} == ours
    assert {text: css.text(text) for text in theirs} == theirs
    stock = mine.only(["[class,eq,'STOCK']"])
    assert stock.rates(3.0).tolist() == [2.5]  # Eq. 4.1, 4.2
    known = css.union()
    assert int(known[0]) == 0b110001  # Eq. 4.3
    assert int(and_not(stock.words, known)[0, 0]) == 0b000110  # Eq. 4.4
    assert stock.added_rates(known, 3.0).tolist() == [1.0]  # Eq. 4.5
    merged = stock.words[0] | known
    assert int(merged[0]) == 0b110111  # Eq. 4.6, without the digit that the print has too many
    assert count_bits(merged[None]).tolist() == [5]
