"""Which experiments exist: a family is a module, loaded when one of its names is asked for.

A family module holds ``EXPERIMENTS``, a tuple of :class:`Experiment`; all its names begin with the family's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from evenflow.errors import BadInput, nearest
from evenflow.experiments.figures import Figure, Table

Row = Mapping[str, object]
TraceWriter = Callable[[Mapping[str, Any]], None]

FAMILIES: dict[str, str] = {
    "slices": "evenflow.experiments.slices.streams",
    "dlber": "evenflow.experiments.triggers.dlber",
    "ami": "evenflow.experiments.operators.family",
    "padres": "evenflow.experiments.brokers.family",
    "dds": "evenflow.experiments.dds.family",
}
"""Family name to module; a name like ``slices-join`` belongs to the family ``slices``."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment that ``evenflow experiment`` can run.

    Parameters
    ----------
    name, summary
        What a person types, and one line that says what it shows.
    settings
        A frozen dataclass; its fields are the ``--set`` keys, see :func:`evenflow.experiments.settings.setting`.
    run
        ``run(settings, seed, trace)`` returns one row; ``trace`` takes one record at a time, or is ``None``.
        It must be a function of a module (worker processes find it by name) and give the same row for the same seed.
    figures
        ``figures(rows, settings)`` describes what the report shows beside the table of numbers.
    options
        Keys of ``settings`` that are also options of their own: ``("rounds",)`` gives ``--rounds 1000``;
        one that is true or false needs no value.
    seeds
        What is run if no seed is named; the first one if this is empty.
    """

    name: str
    summary: str
    settings: type[Any]
    run: Callable[[Any, int, TraceWriter | None], Mapping[str, object]]
    figures: Callable[[Sequence[Row], Any], Sequence[Figure | Table]] | None = None
    options: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()


def experiments() -> list[Experiment]:
    """Load every family and return its experiments in the order they are declared."""
    return [experiment for family in FAMILIES for experiment in _load(family)]


def find(name: str) -> Experiment:
    """Return the experiment called ``name``; an unknown name is refused with the nearest ones.

    Raises
    ------
    BadInput
        When no experiment has this name.
    """
    family = name.partition("-")[0]
    for experiment in _load(family) if family in FAMILIES else ():
        if experiment.name == name:
            return experiment
    raise BadInput(f"unknown experiment '{name}'", nearest(name, [e.name for e in experiments()]), "NAME")


def _load(family: str) -> tuple[Experiment, ...]:
    found: tuple[Experiment, ...] = import_module(FAMILIES[family]).EXPERIMENTS
    return found
