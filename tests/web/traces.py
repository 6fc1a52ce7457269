"""Small traces to look at."""

from __future__ import annotations

import json
from pathlib import Path


def write(directory: Path, records: list[dict], *, live: bool = False) -> Path:
    """Write a run directory; a live one lies beside a log, as a checkpoint's does."""
    run = directory / "run"
    run.mkdir(parents=True)
    if live:
        (directory / "log").mkdir()
    (run / "run.json").write_text(json.dumps({"experiment": "spark", "settings": {}, "seeds": []}))
    (run / "trace.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return run


def lanes(count: int, *, hot: int = 0) -> list[dict]:
    """Some lanes with a unit each, one of them hot."""
    records: list[dict] = [
        {"kind": "node", "at": 0.0, "node": f"lane-{n}", "step": "joined", "capacity": 1.0} for n in range(count)
    ]
    records += [
        {"kind": "owner", "at": 0.0, "node": f"lane-{n}", "slice": n, "owns": True, "session": None}
        for n in range(count)
    ]
    records += [
        {"kind": "sample", "at": 1.0, "node": f"lane-{n}", "load": 4.0 if n == hot else 1.0, "held_rows": n}
        for n in range(count)
    ]
    return records


def move(session: int, at: float, unit: int, giver: int, taker: int) -> list[dict]:
    """A session from release to done, half a second each."""
    names = {"giver": f"lane-{giver}", "taker": f"lane-{taker}", "slices": [unit], "session": session}
    return [
        {"kind": "session", "at": at, "step": "release", "why": "least_moves", **names},
        {"kind": "owner", "at": at, "node": f"lane-{giver}", "slice": unit, "owns": False, "session": session},
        {"kind": "session", "at": at + 0.5, "step": "install", **names},
        {"kind": "owner", "at": at + 0.5, "node": f"lane-{taker}", "slice": unit, "owns": True, "session": session},
        {"kind": "session", "at": at + 1.0, "step": "done", **names},
        {"kind": "move", "at": at + 1.0, "unit": unit, "giver": f"lane-{giver}", "taker": f"lane-{taker}"},
    ]
