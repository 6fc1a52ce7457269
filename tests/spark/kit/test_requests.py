"""What is asked of a running query: carried out, or set aside with its reason; nothing that is asked ends the stream."""

from __future__ import annotations

import copy
import itertools
import json
import random
import sys

import pytest

from evenflow.errors import BadInput
from evenflow.spark.kit import log_writer as clerks
from evenflow.spark.kit import requests
from evenflow.spark.kit.control_log import SNAPSHOT, ControlLog, UnreadableLogError
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.kit.log_writer import Clerk
from evenflow.spark.kit.orders import orders
from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.requests import FOLDER, REFUSED, Askable, checked
from evenflow.spark.kit.routes import INSTALL, MOVE, RECEIPT, SETTING, Entry, Routes
from evenflow.spark.kit.storage import Storage, checked_url
from evenflow.trace import Run, read

SLICES, LANES = 8, 4


class Desk:
    """A clerk, and the requests that lie before it."""

    def __init__(self, directory, **balancing) -> None:
        self.plane = Plane(checked_url(str(directory)), SLICES, LANES, LANES, ("device",), "hash", "refuse")
        self.trace = directory / "evenflow" / "run" / "trace.jsonl"
        self._balancing = balancing
        self._clock = itertools.count(5.0, 3.0)
        self._names = itertools.count()
        self.end = 0
        self.clerk = self.begin()

    def begin(self) -> Clerk:
        self.clerk = Clerk(self.plane, Balancing(**self._balancing), clock=lambda: next(self._clock))
        return self.clerk

    def again(self) -> None:
        self.clerk.close()
        self.begin()

    def ask(self, content) -> str:
        name = f"{next(self._names):06}"
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.plane.place.write(f"{FOLDER}/{name}", body)
        return name

    def write(self) -> list[Entry]:
        """Let the clerk write, as Spark would when all before is committed; return what is new, as keys hear it."""
        start, self.end = self.end, self.clerk.write(self.end)
        log = self.plane.log()
        assert log.length() == self.end
        entries = log.between(start, self.end)
        orders(entries, log.at(start), self.plane.keys)
        return entries

    def refused(self) -> dict[str, str]:
        place = self.plane.place
        return {name: json.loads(place.read(f"{REFUSED}/{name}"))["why"] for name in place.names(REFUSED)}


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    made.clerk.close()


GOOD = [
    {"what": "move", "moves": [[1, 2, "why"], [3, 0, ""]], "by": "me"},
    {"what": "rest", "value": [2], "by": "me"},
    {"what": "use", "value": [2, 3], "by": "me"},
    {"what": "pin", "value": [5, 1], "by": "me"},
    {"what": "unpin", "value": 5, "by": "me"},
    {"what": "policy", "value": "load_classes", "by": "me"},
    {"what": "paused", "value": True, "by": "me"},
]
DEEP: list = []
for _ in range(500):
    DEEP = [DEEP]
WRONG = [
    *(None, True, False, -1, SLICES, 9, 5000, -(10**9), 10**30, 1.0, 0.5, -0.0, 1e300, float("inf")),
    *("", "1", "lane-1", "os:system", "x" * 5000, "\ud800", "../../plane.json", "\x00"),
    *([], [1], [-1], [[1]], [1, 2, 3, 4], ["a", "b"], [None, None], [True, 1], [1, 5.0], {}, {"0": 1}, {"what": "pin"}),
    *(list(range(2000)), DEEP),
]
RAW = [
    *(b"", b" ", b"{", b"}", b"{}", b"[]", b"null", b"0", b'"move"', b"\x00" * 100, b"\xff\xfe", b"\xef\xbb\xbf{}"),
    *(b'{"what":"pin","value":[1,1]', b'{"what":"pin","value":[1,1]}}', b'{"what":"pin" "value":1}', b"[" * 100_000),
    *(b'{"what":"unpin","value":' + b"9" * 6000 + b"}", b'{"what":"unpin","value":NaN}', b'{"value":[1,1]}'),
    *(b'{"what":"p\xc3\x28n","value":[1,1]}', b'{"what":["pin"],"value":[1,1]}', b'{"what":{},"value":[1,1]}'),
    *(json.dumps(GOOD[3]).encode("utf-16"), b"what=pin", b"<pin/>", b'{"what":"fly","value":1}', b"x" * 100_000),
]


def paths_of(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from paths_of(part, (*path, key))


def put(request, path, value):
    if not path:
        return value
    made = copy.deepcopy(request)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


def allowed_after_all(request, path, value) -> bool:
    """Say whether a wrong value is right at this place."""
    what, last = request["what"], path[-1:]
    if last == ("by",) or (what == "move" and last == (2,)):
        return isinstance(value, str) and len(value) < 1000 and value != "\ud800"
    if what == "paused" and path == ("value",):
        return isinstance(value, bool)
    if path in (("moves",), ("value",)) and what in ("move", "rest", "use"):
        return value == [] or (value == [1] and what != "move")
    return path == ("value",) and what == "pin" and value == [2, 3]


def mutated():
    """Yield requests that cannot be carried out: every field of every kind, wrong in every way."""
    for request in GOOD:
        for path in paths_of(request):
            for value in WRONG:
                if not allowed_after_all(request, path, value):
                    yield put(request, path, value)
        for name in ("what", "value", "moves"):
            if name in request:
                yield {key: part for key, part in request.items() if key != name}
        yield {**request, "extra": 1}
        yield {**request, "Value": [1, 1]}
        yield [request]
        yield {**request, "what": request["what"].upper()}
        for other in GOOD:
            value = other.get("value")
            if value is not None and "value" in request and not allowed_after_all(request, ("value",), value):
                pair = {request["what"], other["what"]}
                if len(pair) == 2 and pair != {"rest", "use"}:
                    yield {**request, "value": value}
    yield {"what": "rest", "value": list(range(LANES))}


def test_requests_of_every_kind_wrong_in_every_way_are_set_aside_and_the_rest_is_carried_out(desk, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)  # thousands of files
    cases = [*RAW, *(json.dumps(request).encode() for request in mutated())]
    assert len(cases) > 1000
    random.Random(7).shuffle(cases)
    carried_out = 0
    for start in range(0, len(cases), 40):
        names = [desk.ask(case) for case in cases[start : start + 40]]
        good = desk.ask({"what": "pin", "value": [start // 40 % SLICES, start // 40 % LANES]})
        assert [e.value for e in desk.write() if e.kind == SETTING] == [[start // 40 % SLICES, start // 40 % LANES]]
        carried_out += 1
        assert desk.plane.place.names(FOLDER) == []
        refused = desk.refused()
        missing = [case for name, case in zip(names, cases[start : start + 40], strict=True) if name not in refused]
        assert not missing, missing
        assert good not in refused
        if start % 400 == 0:
            desk.again()
    assert all(why.startswith("request") and why.endswith(".") and len(why) < 1000 for why in desk.refused().values())
    noted = [r for r in read(desk.trace) if r["kind"] == "refusal"]
    assert {r["request"] for r in noted} == desk.refused().keys()
    assert carried_out == -(-len(cases) // 40)
    desk.again()
    desk.write()


def test_good_requests_are_carried_out(desk):
    for request in GOOD:
        desk.ask(request)
    kinds = [(e.kind, e.name) for e in desk.write()]
    settings = [(SETTING, request["what"]) for request in GOOD[1:]]
    assert [kind for kind in kinds if kind in settings] == settings
    assert desk.refused() == {}
    assert desk.plane.place.names(FOLDER) == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"what":"pin","value":[5000,0]}', "request 'pin', slice: given 5000, allowed is 0 to 7."),
        (b'{"what":"pin","value":[0,9]}', "request 'pin', lane: given 9, allowed is 0 to 3."),
        (b'{"what":"move","moves":[[-1,0,""]]}', "request 'move', slice: given -1, allowed is 0 to 7."),
        (b"", "request: given '' (Expecting value: line 1 column 1 (char 0)), allowed is a JSON object."),
    ],
)
def test_one_request_does_not_end_the_stream_and_its_reason_can_be_read(desk, content, why):
    name = desk.ask(content)
    for _ in range(3):
        assert desk.write() == []
        desk.again()
    assert desk.refused() == {name: why}
    assert Run.read(desk.trace).refusals == {why: 1}  # once, and this is what the page shows


def test_a_request_that_cannot_be_read_or_deleted_is_refused_once(desk, monkeypatch):
    desk.ask(GOOD[3])

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "read", denied)
        patched.setattr(Storage, "delete", denied)
        for _ in range(3):
            desk.clerk.write(0)
    assert [r["kind"] for r in read(desk.trace)].count("refusal") == 1


def test_a_request_of_many_bytes_is_not_read(desk, monkeypatch):
    monkeypatch.setattr(requests, "MOST_BYTES", 1000)
    name = desk.ask(b" " * 1001)
    assert desk.write() == []
    assert "1001 bytes" in desk.refused()[name]


def test_a_request_of_more_moves_than_a_batch_takes_is_carried_out_all_the_same(desk, monkeypatch):
    monkeypatch.setattr(clerks, "MOST_ENTRIES", 3)
    moves = [
        {"what": "move", "moves": [[s, (s + 1) % LANES, ""] for s in part]} for part in ((0, 1), (2, 3), range(4, 8))
    ]
    for request in moves:
        desk.ask(request)
    moved = [[e.slice for e in desk.write() if e.kind == MOVE] for _ in range(3)]
    assert moved == [[0, 1], [2, 3], [4, 5, 6, 7]]
    assert [e.session for e in desk.plane.log().between(0, desk.end) if e.kind == MOVE] == list(range(8))


def test_a_request_is_deleted_only_when_it_is_in_the_log(desk, monkeypatch):
    name = desk.ask(GOOD[3])

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "create", fail)
        with pytest.raises(OSError, match="No space"):
            desk.clerk.write(0)
    assert desk.plane.place.names(FOLDER) == [name]
    desk.again()
    assert [e.value for e in desk.write() if e.kind == SETTING] == [[5, 1]]


# -- a log that holds it already ---------------------------------------------------------------------------------------


def setting(name, value) -> Entry:
    return Entry(SETTING, 1.0, name=name, value=value)


def test_a_log_with_impossible_settings_can_go_on_and_says_which_they_are(desk):
    cases = [c for c in mutated() if isinstance(c, dict) and "value" in c and isinstance(c.get("what"), str)]
    bad = [setting(c["what"], c["value"]) for c in cases if set(c) == {"what", "value", "by"} and c["by"] == "me"]
    impossible = [e for e in bad if not (e.name == "policy" and isinstance(e.value, str)) and "[[[" not in str(e.value)]
    assert len(impossible) > 150
    log = ControlLog(desk.plane.place, desk.plane.empty_routes())
    desk.end = log.append([setting("pin", [1, 3]), *impossible, setting("pin", [2, 3])])
    desk.again()
    assert {(e.kind, e.slice, e.taker) for e in desk.write()} == {(MOVE, 1, 3), (MOVE, 2, 3)}
    assert desk.plane.log().at(desk.end).pinned == {1: 3, 2: 3}
    kinds = [r["kind"] for r in read(desk.trace)]
    assert kinds.count("request") == 2
    assert kinds.count("refusal") == len(impossible)


def test_a_snapshot_with_impossible_settings_can_go_on(desk):
    routes = desk.plane.empty_routes()
    routes.version = 5
    fields = {**routes.plain(), "pinned": {"5000": 0, "1": 9, "-1": 0, "2": 3}, "resting": [1, 99, "a"]}
    desk.plane.place.write(f"log/{SNAPSHOT}000000000005", json.dumps(fields).encode())
    desk.end = 5
    desk.again()
    assert {(e.slice, e.taker) for e in desk.write() if e.why == "pinned"} == {(2, 3)}
    assert desk.plane.log().at(5).resting == {1}


@pytest.mark.parametrize(
    "entry",
    [
        Entry(MOVE, 1.0, 0, -1, 3, 1),
        Entry(MOVE, 1.0, 0, SLICES, 0, 1),
        Entry(MOVE, 1.0, 0, 0, 0, LANES),
        Entry(MOVE, 1.0, 0, 0, 0, -1),
        Entry(MOVE, 1.0, 0, 0, 2, 1),  # it is on lane 0
        Entry(MOVE, 1.0, -1, 0, 0, 1),
        Entry(MOVE, 1.0, 0, "0", 0, 1),
        Entry(INSTALL, 1.0, 7),
        Entry(RECEIPT, 1.0, 7),
        Entry(RECEIPT, 1.0, 0),  # before its install
        Entry("removal", 1.0, 0),
    ],
)
def test_a_log_with_an_impossible_step_is_broken_in_one_sentence(desk, entry):
    log = ControlLog(desk.plane.place, desk.plane.empty_routes())
    if entry.kind == RECEIPT and entry.session == 0:
        log.append([Entry(MOVE, 1.0, 0, 0, 0, 1)])
    content = json.dumps({name: getattr(entry, name) for name in entry.__slots__})
    end = log.length()
    seal = json.dumps({"end": end + 1})
    desk.plane.place.write(f"log/{end:012}", f"{content}\n{seal}\n".encode())
    for _ in range(2):
        desk.again()
        with pytest.raises(UnreadableLogError, match=rf"entry {end} is impossible: '{entry.kind}'[^\n]*harm$"):
            desk.clerk.write(0)


def test_a_trace_that_is_gone_after_a_pruning_begins_with_what_is(desk):
    log = ControlLog(desk.plane.place, desk.plane.empty_routes())
    log.append([Entry(MOVE, 1.0, 0, 0, 0, 1), Entry(INSTALL, 1.0, 0), Entry(RECEIPT, 1.0, 0)])
    desk.end = log.append([setting("paused", True)])
    log.prune(3, every=1)
    desk.clerk.close()
    desk.trace.unlink(missing_ok=True)
    desk.begin()
    assert desk.write() == []
    run = Run.read(desk.trace)
    assert run.owners_at() == {str(s): f"lane-{1 if s == 0 else s % LANES}" for s in range(SLICES)}
    assert run.counts["request"] == 1


# -- policies ----------------------------------------------------------------------------------------------------------

POLICY = """
import pathlib
from evenflow.policies import LeastMoves
pathlib.Path(__file__).with_suffix(".ran").touch()
class Own(LeastMoves):
    pass
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module beside the driver that leaves a mark when it is imported."""
    (tmp_path / "mine_beside.py").write_text(POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "mine_beside.ran"
    sys.modules.pop("mine_beside", None)


@pytest.mark.parametrize("where", ["request", "log"])
def test_who_asks_for_a_policy_cannot_choose_what_is_imported(tmp_path, module, where):
    desk = Desk(tmp_path / "check", keep_up=0.0, every=0, tolerance=-1.0)
    if where == "request":
        desk.ask({"what": "policy", "value": "mine_beside:Own"})
    else:
        ControlLog(desk.plane.place, desk.plane.empty_routes()).append([setting("policy", "mine_beside:Own")])
        desk.again()
    for _ in range(3):
        desk.write()
    desk.clerk.close()
    assert not module.exists()
    refusals = Run.read(desk.trace).refusals
    (why,) = [why for why in refusals if "mine_beside:Own" in why]
    assert "Balancing(policies=…)" in why
    assert refusals[why] == 1
    assert "least_moves" in {r.get("policy") for r in read(desk.trace) if r["kind"] == "plan"} or where == "request"


@pytest.mark.parametrize("named", [{"policies": ("mine_beside:Own",)}, {"policy": "mine_beside:Own"}])
def test_a_policy_that_the_program_names_can_be_switched_to(tmp_path, module, named):
    desk = Desk(tmp_path / "check", **named)
    assert module.exists()
    desk.ask({"what": "policy", "value": "least_moves"})
    desk.ask({"what": "policy", "value": "mine_beside:Own"})
    assert [e.value for e in desk.write()] == ["least_moves", "mine_beside:Own"]
    desk.clerk.close()
    plain = json.loads(json.dumps(Balancing(**named).plain()))
    assert Balancing(**plain) == Balancing(**named)


def test_who_asks_hears_at_once_what_is_wrong():
    has = Askable(SLICES, LANES, ("least_moves",), {1, 2, 3})
    for request in (
        {"what": "policy", "value": "a:B"},
        {"what": "pin", "value": [0, 4]},
        {"what": "rest", "value": [0]},
    ):
        with pytest.raises(BadInput):
            checked(request, has)
    assert checked({"what": "rest", "value": [3]}, has)
    assert checked({"what": "pin", "value": [10**6, 5]}, Askable())  # nothing is known: the driver checks again


def test_routes_that_were_folded_before_are_as_they_were():
    entries = [setting("rest", [2]), setting("use", [2]), setting("pin", [1, 1]), setting("unpin", 1)]
    routes = Routes(SLICES, LANES, LANES).apply([*entries, setting("policy", "x"), setting("paused", True)])
    assert (routes.resting, routes.pinned, routes.settings) == (set(), {}, {"policy": "x", "paused": True})
