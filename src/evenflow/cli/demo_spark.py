"""The demonstration on Spark: a bar per lane while it runs, what moved and why, and a table of both runs at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from evenflow.cli import output
from evenflow.cli.served import served
from evenflow.errors import BadInput
from evenflow.experiments.slices.demo import Arm, Runs, cores, demo_session
from evenflow.experiments.slices.demo_stream import HOT_SHARE, SENSORS, Score, Stream, points_for

WIDTH = 50
ROWS_PER_LANE = 10_000
WARM_UP = 3  # batches
FEWEST, MOST = 10, 24  # batches of a run: enough to plan, to move, to drift, and to move again
EVENTS = 8
SIGNS = "▁▂▃▄▅▆▇█"


class Picture:
    """Draws a run as it goes, or writes a line per batch."""

    def __init__(self, console: Console, *, plain: bool) -> None:
        self.console = console
        self.plain = plain
        self.live: Live | None = None
        self.drawn = 0
        self.said = 0

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Begin a new picture."""
        self.drawn = self.said = 0
        if self.plain:
            yield
            return
        with Live(Text(f"{name}: the query starts"), console=self.console, refresh_per_second=5) as self.live:
            yield

    def watch(self, arm: Arm) -> None:
        """Show how far a run is."""
        if self.live is not None and not self.plain:
            self.live.update(drawing(arm))
        elif self.plain:
            self._lines(arm)

    def _lines(self, arm: Arm) -> None:
        for event in arm.events[self.said :]:
            self.console.print(f"{'':>10}  {event}", highlight=False, soft_wrap=True)
        self.said = len(arm.events)
        timed = [arm.batches[n] for n in sorted(arm.batches) if arm.batches[n].seconds is not None]
        for batch in timed[self.drawn :]:
            self.drawn += 1
            slowest = batch.cpu_s.index(max(batch.cpu_s))
            self.console.print(
                f"{arm.name:>10}  batch {self.drawn:2} of {arm.stream.batches}  {batch.seconds:5.2f} s  "
                f"max/mean {batch.max_over_mean:4.2f}  slowest lane {slowest} with {max(batch.cpu_s):.2f} CPU-s",
                highlight=False,
                soft_wrap=True,
            )


def drawing(arm: Arm) -> Group:
    """Return the picture of a run: bars of the last batch, and the last events."""
    last = arm.batches[max(arm.batches)] if arm.batches else None
    bars = Table.grid(padding=(0, 1))
    bars.add_column()
    bars.add_column(min_width=WIDTH)
    if last is not None:
        mean = sum(last.cpu_s) / len(last.cpu_s)
        scale = max(max(batch.cpu_s) for batch in arm.batches.values())
        for lane, cpu in enumerate(last.cpu_s):
            colour = "red" if cpu > 1.5 * mean else "yellow" if cpu > 1.1 * mean else "green"
            slowest = "  slowest" if cpu == max(last.cpu_s) else ""
            bar = Text("█" * round(WIDTH * cpu / scale) if scale else "", style=colour)
            bars.add_row(f"lane {lane}", bar, f"{cpu:.2f} CPU-s{slowest}")
        bars.add_row(
            "by batch", Text(sparkline([arm.batches[n].max_over_mean for n in sorted(arm.batches)])), "max/mean"
        )
    half = arm.stream.batches / 2
    stage = "hot sensors as at the beginning" if len(arm.batches) <= half else "other sensors are hot now"
    title = f"{arm.name}   batch {len(arm.batches)} of {arm.stream.batches}   {arm.seconds:.0f} s   {stage}"
    timed = [batch for batch in arm.batches.values() if batch.seconds]
    speed = f"{timed[-1].rows / (timed[-1].seconds or 1.0):,.0f} rows/s" if timed else "–"
    even = f"max/mean {last.max_over_mean:.2f}" if last is not None else "no batch yet"
    foot = f"{speed}   {even}   slices moved {arm.moves}"
    quiet = "every slice stays where it began" if not arm.balanced else "samples come in"
    lines = Text("\n".join(arm.events[-EVENTS:]) or quiet)
    return Group(
        Panel(bars, title=title, title_align="left", subtitle=foot, subtitle_align="left"),
        Panel(lines, title="what moved, and why", title_align="left"),
    )


def sparkline(values: Sequence[float]) -> str:
    """Return a sign per value, from 1, perfectly even, to the highest.

    Examples
    --------
    >>> sparkline([1.0, 2.8, 1.9])
    '▁█▄'
    """
    top = max(values) - 1.0
    return "".join(SIGNS[round((len(SIGNS) - 1) * (value - 1.0) / top) if top > 0 else 0] for value in values)


def show_spark(
    seconds: float, seed: int, *, plain: bool, master: str, lanes: int, place: Path | None, web: bool = False
) -> bool:
    """Run the demonstration; return whether both runs gave the same."""
    console = output.console()
    picture = Picture(console, plain=plain or not console.is_terminal)
    if place is not None and place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise BadInput(f"'{place}'", "a new or empty directory", "--place")
    kept = place is not None
    folder = place or Path(tempfile.mkdtemp(prefix="evenflow-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with served(folder.absolute() / "runs" / "balanced" / "run", wanted=web):
            return _show(
                console, picture, seconds, seed, master, lanes or min(16, max(4, 2 * cores())), folder.absolute()
            )
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _show(console: Console, picture: Picture, seconds: float, seed: int, master: str, lanes: int, folder: Path) -> bool:
    console.print(f"Spark starts on {master}; its log goes to {folder / 'spark.log'}.", highlight=False, soft_wrap=True)
    spark = demo_session(master, folder / "spark.log")
    try:
        runs = _warmed_up(console, spark, folder, lanes, seconds, seed)
        arms = []
        for name in ("unbalanced", "balanced"):
            with picture.of(name):
                arms.append(runs.run(name, picture.watch, balanced=name == "balanced"))
        same, rows = runs.same("unbalanced", "balanced")
    finally:
        spark.stop()
    console.print(comparison(*(arm.summary() for arm in arms)))
    console.print(verdict(*(arm.summary() for arm in arms)), highlight=False)
    if same:
        console.print(f"Both runs wrote exactly the same {rows:,} rows; every reading counts once.", style="green")
    else:
        console.print("THE RUNS DIFFER: this is a bug.", style="bold red")
    return same


def _warmed_up(console: Console, spark: Any, folder: Path, lanes: int, seconds: float, seed: int) -> Runs:
    """Run a few batches, so that neither run pays for a cold start, and choose as many batches as fit the time."""
    rows = ROWS_PER_LANE * lanes
    # A batch's work fills all cores for a second and a half: that is well above what Spark itself takes for a batch.
    score = Score(points_for(1.5 * min(cores(), lanes) * min(1.0, seconds / 60), rows))
    warm = Runs(spark, folder / "warm-up", Stream(lanes, WARM_UP, rows, seed), score)
    with console.status("a few batches to warm up"):
        batch_s = warm.run("warm-up", balanced=False).summary()["batch_s"]
    batches = int(min(MOST, max(FEWEST, seconds / 2 / batch_s)))
    stream = Stream(lanes, batches - batches % 2, rows, seed)
    console.print(
        f"{SENSORS:,} sensors in {stream.slices} slices on {lanes} lanes and {cores()} cores; {stream.batches} batches of "
        f"{rows:,} readings, each compared with {score.points:,} points of a profile.\n"
        f"{HOT_SHARE:.0%} of the readings come from {stream.hot} hot sensors, whose slices begin on lane "
        f"{stream.hot_lane(0)}; half-way others become hot, on lane {stream.hot_lane(stream.batches)}.",
        highlight=False,
    )
    return Runs(spark, folder / "runs", stream, score)


def comparison(*summaries: dict[str, Any]) -> Table:
    """Return the table at the end."""
    table = Table(title="the same stream twice", title_justify="left")
    table.add_column("")
    lines: dict[str, Callable[[dict[str, Any]], str]] = {
        "batch time, median": lambda s: f"{s['batch_s']:.2f} s",
        "lanes' CPU, max/mean over all batches": lambda s: f"{s['max_over_mean']:.2f}",
        "lanes' CPU, max/mean of the last batches": lambda s: f"{s['last_max_over_mean']:.2f}",
        "rows per second": lambda s: f"{s['rows_per_s']:,.0f}",
        "CPU per batch, all lanes": lambda s: f"{s['cpu_s']:.2f} s",
        "slices moved": lambda s: f"{s['moves']}",
    }
    for summary in summaries:
        table.add_column(summary["run"], justify="right")
    for name, cell in lines.items():
        table.add_row(name, *(cell(summary) for summary in summaries))
    return table


def verdict(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Say in words what the clock shows, also when that is little."""
    if not after["moves"]:
        return "No slice moved, so the two runs differ by chance alone."
    ratio = after["rows_per_s"] / before["rows_per_s"]
    if ratio >= 1.1:
        return f"Balanced, the stream ran {ratio:.2f} times as fast."
    return (
        f"On the clock balancing changed little here ({ratio:.2f} times the rows per second): {cores()} cores share the "
        "lanes, so that short tasks fill the core that waits for a long one, and other programs take their part.\n"
        "The lanes' CPU is what a machine with a core per lane would see."
    )
