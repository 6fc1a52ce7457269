"""Run the commands behind docs/results.md and write the page: a number that was not measured is not on it.

make results            the cheap commands, about ten minutes of CPU
make results LONG=1     all of them, hours

Each command's JSON is kept in runs/results; ``--keep`` takes what is there instead of running it again.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenflow.experiments import published
from evenflow.experiments.published import Source, value_of

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "runs" / "results"
PAGE = ROOT / "docs" / "results.md"
EVENNESS = ("items", "lost", "duplicated", "owner_violations", "sessions", "moves", "max_over_mean", "floor", "gap")
FAULTS = ("items", "sessions", "faulted_sessions", "rolled_back_sessions", "lost", "duplicated", "owner_violations")
METERS = ("reduction_pct", "fewer_pct", "above_ut_reduction_pct", "messages", "transfers", "duplicates", "infeasible")
TRIGGERS = ("makespan_none_s", "makespan_s", "better_pct", "over_pct", "messages")
BROKERS = ("input_sessions", "convergence_s", "std_input", "std_output", "overhead_steady_pct", "lost", "duplicated")


@dataclass(frozen=True)
class Command:
    """One command, what it shows, which fields of its rows, and what is published of it."""

    words: str
    shows: str
    fields: tuple[str, ...]
    source: Source | None = None
    long: bool = False


COMMANDS = [
    Command("experiment slices-join", "Two nodes with five slices each, a third joins.", EVENNESS),
    Command("experiment slices-drain", "One node leaves on request, one because it idles.", EVENNESS),
    Command("experiment slices-skew --seeds 1-2", "A Zipf-skewed stream on eight nodes.", EVENNESS),
    Command("experiment slices-skew --seeds 1-20", "The same, more seeds.", EVENNESS, long=True),
    Command("experiment slices-drift --seeds 1-20", "The hot keys change.", EVENNESS, long=True),
    Command("experiment slices-hetero --seeds 1-5", "Capacities 1:10.", EVENNESS, long=True),
    Command("experiment slices-scale", "3,000 nodes, 30,000 slices.", EVENNESS, long=True),
    Command(
        "experiment slices-rounds --rounds 200", "How even plans are.", ("rounds", "moves", "imbalance_p50_pct", "imbalance_p95_pct", "imbalance_max_pct")
    ),
    Command("experiment slices-chaos --seeds 1-5", "Losses, repetitions, crashes, a balancer that dies.", FAULTS),
    Command("experiment slices-chaos --seeds 1-1000", "The same, more seeds.", FAULTS, long=True),
    Command("experiment ami --seeds 1-15", "The published protocol, with our corrections.", METERS, published.AMI),
    Command("experiment ami --seeds 1-15 --set mode=even", "Our own protocol on the same trees.", METERS, published.AMI),
    Command("experiment ami --seeds 1-75", "As published, more seeds.", METERS, published.AMI, long=True),
    Command(
        "experiment ami-chaos --seeds 1-5", "Transfers under faults.", ("sessions", "moved", "rolled_back", "lost", "duplicated")
    ),
    Command("experiment dlber --seeds 1-2", "Algorithm 1, skew 1.0.", TRIGGERS, published.DLBER),
    Command("experiment dlber --seeds 1-2 --set policy=ask_when_idle", "Our own policy.", TRIGGERS, published.DLBER),
    Command("experiment dlber --seeds 1-5 --set skew=1.2", "Algorithm 1, more skew.", TRIGGERS, published.DLBER, long=True),
    Command("experiment padres-local", "One cluster of four edge brokers.", BROKERS, published.PADRES, long=True),
    Command(
        "experiment padres-local --seeds 1-14 --set balancer=even", "Ours.", BROKERS, published.PADRES, long=True
    ),
    Command("experiment padres-global", "Four clusters.", BROKERS, published.PADRES_GLOBAL, long=True),
]  # fmt: skip


def main() -> int:
    """Run what is asked for, and write the page of everything that has a result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="the commands that take hours, too")
    parser.add_argument("--keep", action="store_true", help="take results that are there")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    sections = []
    for command in COMMANDS:
        path = KEPT / f"{re.sub('[^a-z0-9]+', '-', command.words)}.json"
        if not (asked.keep and path.exists()):
            if asked.keep or (command.long and not asked.long):
                continue
            print(f"evenflow {command.words}", file=sys.stderr)
            run(command, path)
        sections.append(section(command, json.loads(path.read_text(encoding="utf-8"))))
    PAGE.write_text(HEAD + "\n".join(sections), encoding="utf-8")
    print(f"{len(sections)} results: {PAGE.relative_to(ROOT)}")
    return 0


def run(command: Command, path: Path) -> None:
    """Run one command and keep what it printed; a command that fails ends everything."""
    words = [sys.executable, "-m", "evenflow", *command.words.split(), "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"evenflow {command.words}: exit code {ended.returncode}\n{ended.stderr}")
    path.write_text(ended.stdout, encoding="utf-8")


def section(command: Command, result: dict[str, Any]) -> str:
    """Return what the page says of one command."""
    rows = result["rows"]
    missing = [name for name in command.fields if name not in rows[0]]
    if missing:
        raise SystemExit(f"evenflow {command.words}: rows without {', '.join(missing)}")
    lines = [
        f"## {command.words.partition(' ')[2]}",
        "",
        command.shows,
        "",
        "```",
        f"evenflow {command.words}",
        "```",
        "",
    ]
    if len(rows) == 1:
        lines += ["| | |", "|---|---|"]
        lines += [f"| {name.replace('_', ' ')} | {text(rows[0].get(name))} |" for name in command.fields]
    else:
        lines += ["| | sum | mean | median | highest |", "|---|---|---|---|---|"]
        for name in command.fields:
            cells = (text(result[measure].get(name)) for measure in ("total", "mean", "median", "max"))
            lines.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
    if command.source is not None:
        lines += ["", f"Published: {command.source.title}.", "", "| | published | here, mean |", "|---|---|---|"]
        for stated in command.source.stated:
            found = [value for row in rows if (value := value_of(row, stated.field)) is not None]
            lines.append(f"| {stated.what} | {stated.value} | {text(sum(found) / len(found) if found else None)} |")
        lines += ["", "What differs:", "", *(f"- {sentence}" for sentence in command.source.differs)]
    return "\n".join([*lines, ""])


def text(value: Any) -> str:
    """Show one value as a person reads it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


HEAD = """# Results

Written by `make results`, which runs the commands shown here and turns their JSON into tables.
Everything is virtual time, so the same commands give the same numbers on any machine.
What was not run is not shown; `make results LONG=1` runs the long ones as well, for hours.
Live runs on Spark depend on the machine: see [the benchmarks](benchmarks-spark.md).

No published figures exist for data processing slices: the evaluation of the DPSLB thesis is not among its published chapters that we have.

"""

if __name__ == "__main__":
    sys.exit(main())
