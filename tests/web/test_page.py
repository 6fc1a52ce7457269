from __future__ import annotations

import json

import pytest
from bokeh.document import Document
from prometheus_client.parser import text_string_to_metric_families
from traces import lanes, move, write

from evenflow.errors import BadInput
from evenflow.trace import Run
from evenflow.web.drawings import History
from evenflow.web.follow import Followed
from evenflow.web.metrics import metrics_text
from evenflow.web.page import Page, make_page
from evenflow.web.server import make_server


def append(run, records, end="\n"):
    with (run / "trace.jsonl").open("a") as trace:
        trace.write("\n".join(json.dumps(r) for r in records) + end)


def test_a_growing_trace_is_read_once_and_a_torn_line_waits(tmp_path):
    run = write(tmp_path, lanes(2))
    followed = Followed(run)
    assert followed.look() == 6
    append(run, move(1, 2.0, 0, 0, 1), end="")
    assert followed.look() == 5  # the sixth is still being written
    append(run, [])
    assert followed.look() == 1
    assert followed.run.owners_at() == {"0": "lane-1", "1": "lane-1"}


def test_a_checkpoint_leads_to_its_run(tmp_path):
    write(tmp_path / "check" / "evenflow", lanes(2), live=True)
    followed = Followed(tmp_path / "check")
    assert followed.requests == tmp_path / "check" / "evenflow" / "requests"
    assert Followed(write(tmp_path / "recorded", lanes(2))).requests is None
    with pytest.raises(BadInput, match=r"a run directory or a checkpoint, with trace\.jsonl in it"):
        Followed(tmp_path)


def test_of_several_seeds_one_is_shown(tmp_path):
    run = write(tmp_path, [{**r, "seed": seed} for seed in (3, 4) for r in lanes(2 if seed == 3 else 5)])
    assert [Followed(run, seed).look() for seed in (None, 3, 4, 9)] == [6, 6, 15, 0]


def test_every_dimension_has_its_bar_and_the_threshold_its_line(tmp_path):
    run = write(tmp_path, lanes(2))
    page = Page(Followed(run))
    page.refresh()
    assert (list(page.loads.bars.data["name"]), page.loads.limit.visible) == (["lane-0", "lane-1"], False)
    uses = [{"input": 0.6, "memory": 0.1}, {"input": 0.2, "memory": 0.1}]
    samples = [
        {"kind": "sample", "at": 3.0, "node": f"lane-{n}", "load": max(parts.values()), "parts": parts, "limit": 0.9}
        for n, parts in enumerate(uses)
    ]
    append(run, samples)
    page.refresh()
    bars = page.loads.bars.data
    assert list(zip(bars["name"], bars["load"], bars["relative"], strict=True)) == [
        (("lane-0", "input"), 0.6, pytest.approx(1.5)),
        (("lane-0", "memory"), 0.1, pytest.approx(1.0)),
        (("lane-1", "input"), 0.2, pytest.approx(0.5)),
        (("lane-1", "memory"), 0.1, pytest.approx(1.0)),
    ]
    assert (page.loads.limit.visible, page.loads.limit.location, page.loads.mean.visible) == (True, 0.9, False)


@pytest.mark.parametrize("count", [3, 500])
def test_the_page_shows_few_nodes_as_bars_and_many_as_squares(tmp_path, count):
    run = write(tmp_path, [*lanes(count), *move(1, 2.0, 0, 0, 1)])
    document = Document()
    make_page(document, Followed(run))
    document.validate()
    page = Page(Followed(run))
    page.refresh()
    assert (page.loads.few.visible, page.loads.many.visible) == (count <= 24, count > 24)
    shown = page.loads.bars if count <= 24 else page.loads.squares
    assert len(shown.data["name"]) == count
    assert page.moves.data["giver"] == ["lane-0"]
    assert sum(arrow.visible for arrow in page.map.arrows) == 1
    assert "max over mean" in page.head.text
    append(run, [{"kind": "refusal", "at": 9.0, "why": "even enough", "name": "even enough"}])
    page.refresh()
    assert page.refusals.data == {"why": ["even enough"], "times": [1]}


def test_a_request_is_asked_confirmed_and_written(tmp_path):
    run = write(tmp_path, lanes(2), live=True)
    page = Page(Followed(run))
    page.refresh()
    controls = page.controls
    assert controls.layout.visible
    controls.node.value = "lane-1"
    drain = next(b for b in controls.layout.select({"label": "drain lane"}))
    drain._trigger_event(_click(drain))
    assert controls.confirm.visible
    assert not (tmp_path / "requests").exists()
    controls.confirm._trigger_event(_click(controls.confirm))
    (request,) = (tmp_path / "requests").iterdir()
    asked = json.loads(request.read_text())
    assert (asked["what"], asked["value"]) == ("rest", [1])
    assert asked["by"].endswith("on the page")


def live(tmp_path, **settings):
    """A page beside a live query of 8 slices and 2 lanes."""
    run = write(tmp_path, lanes(2), live=True)
    about = {"slices": 8, "lanes": 2, "policy": "least_moves", "policies": [], **settings}
    (run / "run.json").write_text(json.dumps({"experiment": "spark", "settings": about, "seeds": []}))
    page = Page(Followed(run))
    page.refresh()
    return page


def press(page, label):
    """Press a button and confirm; return what was asked."""
    button = next(b for b in page.controls.layout.select({"label": label}))
    button._trigger_event(_click(button))
    page.controls.confirm._trigger_event(_click(page.controls.confirm))
    folder = page.controls.folder
    return [json.loads(file.read_text())["value"] for file in sorted(folder.iterdir())] if folder.is_dir() else []


@pytest.mark.parametrize("typed", [5000, 8, -1, 1.5, None])
def test_a_slice_that_there_is_not_is_refused_on_the_page(tmp_path, typed):
    page = live(tmp_path)
    page.controls.unit.value = typed
    assert press(page, "pin slice to lane") == []
    assert "not asked: request &#x27;pin&#x27;, slice: given" in page.controls.word.text
    page.controls.unit.value = 7
    assert press(page, "pin slice to lane") == [[7, 0]]
    assert page.controls.word.text.startswith("asked: pin [7, 0]")


def test_a_lane_that_there_is_not_is_refused_on_the_page(tmp_path):
    page = live(tmp_path, lanes=1)
    page.controls.node.value = "lane-1"
    assert press(page, "drain lane") == []
    page.controls.node.options = []
    page.controls.node.value = None
    assert press(page, "use lane") == []


def test_the_page_offers_the_policies_that_the_program_names(tmp_path):
    page = live(tmp_path, policy="own:First", policies=["own:Second"])
    assert {"own:First", "own:Second", "least_moves"} <= set(page.controls.policy.options)
    page.controls.policy.value = "own:Second"
    assert press(page, "use policy") == ["own:Second"]
    page.controls.policy.value = "os:system"
    assert press(page, "use policy") == ["own:Second"]


def _click(button):
    from bokeh.events import ButtonClick

    return ButtonClick(button)


def test_the_metrics_can_be_parsed_and_move(tmp_path):
    run = write(tmp_path, lanes(2))
    followed = Followed(run)

    def value(name, **labels):
        families = text_string_to_metric_families(metrics_text(followed).decode())
        return next(s.value for f in families for s in f.samples if s.name == name and s.labels == labels)

    assert value("evenflow_moves_total") == 0
    assert value("evenflow_node_load", node="lane-0") == 4.0
    append(run, [*move(1, 2.0, 0, 0, 1), {"kind": "refusal", "at": 9.0, "why": 'a "quoted"\nreason', "name": ""}])
    assert value("evenflow_moves_total") == 1
    assert value("evenflow_session_seconds_total") == 1.0
    assert value("evenflow_refusals_total", why='a "quoted"\nreason') == 1


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.1", "example.org"])
def test_another_address_needs_a_token(tmp_path, address):
    with pytest.raises(BadInput, match="a --token that whoever opens the page must give"):
        make_server(Followed(write(tmp_path, lanes(2))), 0, address)


def test_a_directory_without_a_trace_is_refused(evenflow, tmp_path):
    ended = evenflow("web", tmp_path)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


def test_the_first_batch_of_a_live_run_does_not_flatten_the_rest():
    records = [
        {"kind": "sample", "at": 1.7e9 + at, "node": "a", "load": load} for at, load in enumerate((50.0, 2.0, 3.0))
    ]
    drawn = History()
    drawn.show(Run.of(records))
    assert drawn.loads.y_range.end == pytest.approx(3.0 * 1.06)
    drawn.show(Run.of([{**record, "at": record["at"] - 1.7e9} for record in records]))
    assert drawn.loads.y_range.end == pytest.approx(50.0 * 1.06)  # virtual time has no warm-up


def test_one_sample_makes_a_point():
    records = [
        {"kind": "sample", "at": at, "node": node, "load": at} for at, node in ((1.0, "a"), (2.0, "a"), (2.0, "b"))
    ]
    drawn = History()
    drawn.show(Run.of(records))
    assert (drawn.single.data["name"], drawn.single.data["x"], drawn.single.data["y"]) == (["b"], [2.0], [2.0])
    assert drawn.ratio.data["mean"] == [1.0, 2.0]


def test_a_dear_refresh_is_followed_by_a_rest(tmp_path, monkeypatch):
    run = write(tmp_path, lanes(2))
    page = Page(Followed(run))
    clock = iter([0.0, 2.0, 30.0, 41.9, 42.1, 42.2])  # a tick asks twice when it refreshes, once when it rests
    monkeypatch.setattr("evenflow.web.page.time.monotonic", lambda: next(clock))
    page.tick()
    append(run, move(1, 2.0, 0, 0, 1))
    page.tick()
    page.tick()
    assert page.moves.data["units"] == []
    page.tick()
    assert page.moves.data["units"] == ["0"]
