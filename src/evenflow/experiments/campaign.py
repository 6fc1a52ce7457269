"""A campaign runs one experiment over its seeds, on all cores or elsewhere, and returns the rows in the order of the seeds."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.summary import plain
from evenflow.trace import JsonlTrace

PlainRow = dict[str, Any]
Run = Callable[[Any, int, TraceWriter | None], Mapping[str, object]]
Elsewhere = Callable[["SeedRun", Sequence[int], Callable[[int, "SeedDone"], None]], None]
"""Calls a function for every seed on other machines, and hands each result back as it is done."""


def run_campaign(
    experiment: Experiment,
    settings: Any,
    seeds: Sequence[int],
    trace: Path | None = None,
    on_row: Callable[[], None] = lambda: None,
    elsewhere: Elsewhere | None = None,
    *,
    flush: bool = False,
) -> list[PlainRow]:
    """Run ``experiment`` once per seed.

    Parameters
    ----------
    experiment, settings, seeds
        What to run; ``settings`` is an object of ``experiment.settings``.
    trace
        Where the records go, one JSON line each; with several seeds each record also says its ``seed``.
    on_row
        Called whenever a seed is done, for a progress bar.
    elsewhere
        Runs the seeds somewhere else than in processes of this machine.
    flush
        Write every record of a single seed at once, for somebody who reads along.

    Returns
    -------
    list of dict
        One plain row per seed, ``seed`` first, in the order of ``seeds`` whatever order they finished in.
    """
    if len(seeds) == 1 and elsewhere is None:
        row = _run_seed(experiment.run, settings, seeds[0], trace, name_seed=False, flush=flush)
        on_row()
        return [row]
    parts = {seed: None if trace is None else trace.with_name(f"{trace.name}.{seed}.part") for seed in seeds}
    try:
        if elsewhere is None:
            rows = _run_in_processes(experiment.run, settings, parts, on_row)
        else:
            rows = _run_elsewhere(elsewhere, SeedRun(experiment.run, settings, trace is not None), parts, on_row)
        if trace is not None:
            _join_parts(trace, [part for part in parts.values() if part is not None])
    finally:
        for part in parts.values():
            if part is not None:
                part.unlink(missing_ok=True)
    return [rows[seed] for seed in seeds]


def _run_in_processes(
    run: Run, settings: Any, parts: Mapping[int, Path | None], on_row: Callable[[], None]
) -> dict[int, PlainRow]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Spawned, not forked: a progress bar draws from a thread, and a fork beside threads can deadlock.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(cores, len(parts)), context, initializer=_ignore_interrupts)
    try:
        # Workers start blocked, as they inherit it: a Ctrl-C before they can ignore it would end them with a traceback.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            futures: dict[Future[PlainRow], int] = {
                pool.submit(_run_seed, run, settings, seed, part, name_seed=True): seed for seed, part in parts.items()
            }
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        rows = {}
        for future in as_completed(futures):
            rows[futures[future]] = future.result()
            on_row()
    except BaseException:
        # A person's Ctrl-C or a seed's failure ends the campaign now, not when the seeds under way are done.
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    pool.shutdown()
    return rows


class SeedDone(NamedTuple):
    """One seed's row, and its trace as it would be in a file."""

    row: PlainRow
    trace: bytes


@dataclass(frozen=True)
class SeedRun:
    """Runs one seed where no file of this machine can be written."""

    run: Run
    settings: Any
    traced: bool
    name_seed: bool = True

    def __call__(self, seed: int) -> SeedDone:
        """Return the row and the trace."""
        if not self.traced:
            return SeedDone(_run_seed(self.run, self.settings, seed, None, name_seed=False), b"")
        with TemporaryDirectory() as folder:
            part = Path(folder) / "part"
            row = _run_seed(self.run, self.settings, seed, part, name_seed=self.name_seed)
            return SeedDone(row, part.read_bytes())


def _run_elsewhere(
    elsewhere: Elsewhere, run: SeedRun, parts: Mapping[int, Path | None], on_row: Callable[[], None]
) -> dict[int, PlainRow]:
    rows = {}

    def done(seed: int, result: SeedDone) -> None:
        rows[seed] = result.row
        part = parts[seed]
        if part is not None:
            part.write_bytes(result.trace)
        on_row()

    elsewhere(replace(run, name_seed=len(parts) > 1), list(parts), done)
    return rows


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal; the parent decides


def _run_seed(
    run: Run, settings: Any, seed: int, trace: Path | None, *, name_seed: bool, flush: bool = False
) -> PlainRow:
    if trace is None:
        result = run(settings, seed, None)
    else:
        with JsonlTrace(trace, flush=flush) as write:
            result = run(settings, seed, (lambda record: write({**record, "seed": seed})) if name_seed else write)
    return {"seed": seed, **{name: plain(value) for name, value in result.items()}}


def _join_parts(trace: Path, parts: Sequence[Path]) -> None:
    with trace.open("wb") as whole:
        for part in parts:
            with part.open("rb") as lines:
                while block := lines.read(1 << 20):
                    whole.write(block)
