"""The picture of the demonstration: a bar per node, the moves with their reasons, and how even it all is."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from evenflow.cli import output
from evenflow.experiments.slices.streams import Bench, Drifts

WIDTH = 46
FRAME_S = 0.1  # seconds of the viewer between two pictures
SECONDS = 120.0  # virtual


class Show:
    """Follows a run by its trace and draws it."""

    def __init__(self, seed: int, console: Console, *, plain: bool) -> None:
        self.console = console
        self.plain = plain
        self.loads: dict[str, float] = {}
        self.events: deque[str] = deque(maxlen=7)
        self.moves = 0
        self.settings = Drifts(seconds=SECONDS, rate=600.0, zipf=0.8, sensors=1000)
        self.bench = Bench(self.settings, seed, self._see)

    def _see(self, record: Mapping[str, Any]) -> None:
        at = record["at"]
        if record["kind"] == "sample":
            self.loads[record["node"]] = record["load"]
        elif record["kind"] == "session" and record["step"] == "done" and record["giver"]:
            count = len(record["slices"])
            self.moves += count
            slices = "slice" if count == 1 else "slices"
            self._say(f"{at:6.1f} s  {count} {slices}  {record['giver']} → {record['taker']}")
        elif record["kind"] == "plan" and record["moves"]:
            before, after = record["before"], record["after"]
            self._say(
                f"{at:6.1f} s  plan: max/mean {before:.2f} → {after:.2f}, {record['moves']} moves; {record['floor']}"
            )

    def _say(self, line: str) -> None:
        self.events.append(line)
        if self.plain:
            self.console.print(line, highlight=False)

    def picture(self, now: float) -> Group:
        """Return what is on the screen at a moment."""
        bars = Table.grid(padding=(0, 1))
        mean = sum(self.loads.values()) / len(self.loads) if self.loads else 0.0
        for name in sorted(self.loads):
            load = self.loads[name]
            colour = "red" if load > 1.2 * mean else "yellow" if load > 1.05 * mean else "green"
            bars.add_row(name, Text("█" * min(WIDTH, round(WIDTH * load / 2)), style=colour), f"{100 * load:4.0f} %")
        ratio, _ = self.bench.summary.imbalance(self.bench.sensors.slice_rates(now).tolist())
        change = self.bench.change_at
        stage = "the hot keys stay as they are" if now < change else f"the hot keys jumped at {change:.0f} s"
        title = f"{now:5.1f} s   {stage}   max/mean {ratio:.2f}   slices moved {self.moves}"
        lines = Text("\n".join(self.events) or "the first node owns all slices; samples come in")
        return Group(Panel(bars, title=title, title_align="left"), Panel(lines, title="what moved, and why"))


def show(seconds: float, seed: int, *, plain: bool) -> None:
    """Run the demonstration for about so many seconds."""
    console = output.console()
    plain = plain or not console.is_terminal
    view = Show(seed, console, plain=plain)
    console.print(
        f"{view.settings.nodes} nodes, {view.settings.slices} slices, a Zipf-skewed stream in virtual time; "
        f"at {view.bench.change_at:.0f} s other keys become hot.",
        highlight=False,
    )
    row = view.bench.run() if plain else _run_live(view, seconds)
    lost, doubled = row["lost"], row["duplicated"]
    console.print(
        f"\n{row['items']:,} items, {row['processed']:,} processed, {lost} lost, {doubled} twice; "
        f"{row['moves']} slices moved in {row['sessions']} sessions; "
        f"max/mean over the last fifth of the run {row['max_over_mean']:.3f}.",
        highlight=False,
    )


def _run_live(view: Show, seconds: float) -> dict[str, Any]:
    frames = max(2, int(seconds / FRAME_S))
    began = time.monotonic()
    with Live(view.picture(0.0), console=view.console, refresh_per_second=10) as live:

        def frame(number: int) -> None:
            live.update(view.picture(view.bench.sim.now))
            ahead = began + seconds * number / frames - time.monotonic()
            time.sleep(max(0.0, ahead))  # the virtual clock waits for the viewer

        at = [(SECONDS * n / frames, lambda n=n: frame(n)) for n in range(frames)]
        return view.bench.run(*at)
