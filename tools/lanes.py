"""Draw what balancing does: the lanes of the demonstration's two runs, batch by batch, as an SVG.

.venv/bin/evenflow demo --place PLACE && .venv/bin/python tools/lanes.py PLACE docs/lanes.svg
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

WIDTH, HEIGHT, GAP = 860, 300, 40
TOP, BOTTOM, LEFT, RIGHT = 64, 46, 54, 12
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b")
RUNS = {"unbalanced": "every slice stays where it began", "balanced": "evenflow moves slices"}


def loads(trace: Path) -> tuple[list[list[float]], list[int]]:
    """Return the CPU seconds of each batch and lane, and the batches (from 0) before which slices had moved."""
    batches: dict[int, dict[int, float]] = {}
    moved = []
    for line in trace.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "sample" and record["rows"]:
            batches.setdefault(record["batch"], {})[int(record["node"].rpartition("-")[2])] = record["load"]
        elif record["kind"] == "session" and record["step"] == "install":
            moved.append(len(batches))
    lanes = 1 + max(lane for found in batches.values() for lane in found)
    return [[batches[n].get(lane, 0.0) for lane in range(lanes)] for n in sorted(batches)], sorted(set(moved))


def draw(runs: dict[str, tuple[list[list[float]], list[int]]]) -> str:
    """Return both runs side by side, on one scale."""
    top = max(max(batch) for batches, _ in runs.values() for batch in batches)
    wide = (WIDTH - LEFT - RIGHT - GAP) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for place, (name, (batches, moved)) in enumerate(runs.items()):
        parts += panel(name, batches, moved, LEFT + place * (wide + GAP), wide, top)
    lanes = len(next(iter(runs.values()))[0][0])
    for lane in range(lanes):
        x = LEFT + lane * 80
        parts.append(f'<rect x="{x}" y="{HEIGHT - 14}" width="10" height="10" fill="{COLOURS[lane % 8]}"/>')
        parts.append(f'<text x="{x + 14}" y="{HEIGHT - 5}" fill="#333">lane {lane}</text>')
    note = "dashed: the mean; ▲ slices have moved; half-way other keys become hot"
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 5}" text-anchor="end" fill="#555">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])


def panel(
    name: str, batches: list[list[float]], moved: list[int], left: float, wide: float, top: float
) -> Iterator[str]:
    """Yield one run: a group of bars per batch, a bar per lane."""
    base, scale = HEIGHT - BOTTOM, (HEIGHT - TOP - BOTTOM) / top
    ratio = [max(batch) / fmean(batch) for batch in batches]
    end = fmean(ratio[-2:])
    yield f'<text x="{left}" y="20" font-size="15" font-weight="bold" fill="#222">{name}: {RUNS[name]}</text>'
    words = f"busiest lane: {end:.2f} times the mean in the last two batches"
    yield f'<text x="{left}" y="40" fill="#555">{words}</text>'
    for step in range(int(top / 0.5) + 1):
        y = base - 0.5 * step * scale
        yield f'<line x1="{left}" x2="{left + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{0.5 * step:g} s</text>'
    group = wide / len(batches)
    for number, batch in enumerate(batches):
        bar = 0.8 * group / len(batch)
        x = left + number * group + 0.1 * group
        for lane, cpu in enumerate(batch):
            at = f'x="{x + lane * bar:.1f}" y="{base - cpu * scale:.1f}" width="{bar:.1f}" height="{cpu * scale:.1f}"'
            yield f'<rect {at} fill="{COLOURS[lane % 8]}"/>'
        y = base - fmean(batch) * scale
        ends = f'x1="{x - 0.05 * group:.1f}" x2="{x + 0.85 * group:.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        yield f'<line {ends} stroke="#111" stroke-dasharray="3 2"/>'
        mark = " ▲" if number in moved else ""
        yield f'<text x="{x + 0.4 * group:.1f}" y="{base + 14}" text-anchor="middle" fill="#333">{number + 1}{mark}</text>'


if __name__ == "__main__":
    found = {name: loads(Path(sys.argv[1]) / "runs" / name / "run" / "trace.jsonl") for name in RUNS}
    Path(sys.argv[2]).write_text(draw(found), encoding="utf-8")
