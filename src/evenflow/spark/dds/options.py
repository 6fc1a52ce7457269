"""The options of the format ``dds``, checked before anything is opened; errors name the option and the problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.errors import BadInput, nearest
from evenflow.expression import Expression, parse
from evenflow.slices.assignment import parse_assignment

READ = (
    "topic", "type", "domain", "journal", "filter", "parameters", "slices", "assign", "max_rows_per_batch",
    "max_backlog_rows", "reliability", "history", "durability", "acknowledge",
)  # fmt: skip
WRITE = ("topic", "type", "domain", "readers", "patience_s", "reliability", "history", "durability")
POLICIES = ("reliability", "history", "durability")
WHERE = "format 'dds'"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options for reading a stream."""

    topic: str
    type: str
    domain: int
    journal: Path
    max_rows: int
    max_backlog: int
    acknowledge: bool
    policies: Mapping[str, str] = field(default_factory=dict)
    slices: int | None = None
    assign: str = ""
    filter: str | None = None
    parameters: tuple[Any, ...] = ()

    def condition(self, schema: Any) -> Callable[[Any], Any] | None:
        """Return a function that selects the rows to keep; reject a malformed filter or one with an unknown field."""
        if self.filter is None:
            return None
        expression = parse(self.filter, self.parameters)
        if not expression.is_condition:
            raise BadInput(repr(self.filter), "a condition, such as 'temperature > 30'", f"{WHERE}, option filter")
        for name in expression.names:
            if name.partition(".")[0] not in schema.names:
                raise BadInput(f"the field {name!r}", nearest(name, schema.names), f"{WHERE}, option filter")
        return _Mask(expression)

    def slice_of(self, schema: Any) -> Callable[[Any], Any] | None:
        """Return the assignment function; reject one that uses an unknown field."""
        if not self.assign:
            return None
        assert self.slices is not None
        assignment = parse_assignment(self.assign, self.slices)
        of_field = getattr(assignment, "field", None)
        if of_field is not None and of_field not in schema.names:
            raise BadInput(f"the field {of_field!r}", nearest(of_field, schema.names), f"{WHERE}, option assign")
        return assignment.assign_batch


class _Mask:
    """Evaluates a condition on every row of a batch; converts only the columns that the condition names."""

    def __init__(self, expression: Expression) -> None:
        self._test = expression.test
        self._names = sorted({name.partition(".")[0] for name in expression.names})

    def __call__(self, batch: pa.RecordBatch) -> Any:
        columns = [batch.column(name).to_pylist() for name in self._names]
        if not columns:
            return np.full(batch.num_rows, self._test({}))
        names, test = self._names, self._test
        return np.fromiter((test(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)), np.bool_)


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check the options for reading and return them.

    Raises
    ------
    BadInput
        For an unknown, missing or wrong option, which the message names.
    """
    options = _known(given, READ)
    slices = _whole(options, "slices", 1) if "slices" in options else None
    assign = options.get("assign", "")
    if bool(assign) != (slices is not None):
        missing = "slices" if assign else "assign"
        raise BadInput(f"no option {missing!r}", "slices and assign together", WHERE)
    try:
        parameters = json.loads(options.get("parameters", "[]"))
    except ValueError:
        parameters = None
    if not isinstance(parameters, list):
        raise BadInput(repr(options["parameters"]), 'a JSON list, such as ["30"]', f"{WHERE}, option parameters")
    return ReadOptions(
        topic=_needed(options, "topic", "the name of a topic"),
        type=_needed(options, "type", "module:Class, or a schema such as 'id bigint, name string'"),
        domain=_whole(options, "domain", 0, 0),
        journal=Path(_needed(options, "journal", "a directory beside the checkpoint, for rows that wait")),
        max_rows=_whole(options, "max_rows_per_batch", 1, 100_000),
        max_backlog=_whole(options, "max_backlog_rows", 1, 1_000_000),
        acknowledge=_flag(options, "acknowledge", default=True),
        policies={name: options[name] for name in POLICIES if name in options},
        slices=slices,
        assign=assign,
        filter=options.get("filter"),
        parameters=tuple(parameters),
    )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options for writing rows."""

    topic: str
    type: str
    domain: int
    readers: int
    patience_s: float
    policies: Mapping[str, str] = field(default_factory=dict)


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Check the options for writing and return them.

    Raises
    ------
    BadInput
        For an unknown, missing or wrong option, which the message names.
    """
    options = _known(given, WRITE, ignored=("checkpointlocation", "path"))
    text = options.get("patience_s", "10")
    try:
        patience = float(text)
    except ValueError:
        patience = -1.0
    if not 0 <= patience < float("inf"):
        raise BadInput(repr(text), "seconds, at least 0", f"{WHERE}, option patience_s")
    return WriteOptions(
        topic=_needed(options, "topic", "the name of a topic"),
        type=options.get("type", ""),
        domain=_whole(options, "domain", 0, 0),
        readers=_whole(options, "readers", 0, 1),
        patience_s=patience,
        policies={name: options[name] for name in POLICIES if name in options},
    )


def _known(given: Mapping[str, str], names: tuple[str, ...], ignored: tuple[str, ...] = ("path",)) -> dict[str, str]:
    """Return the options with lower-case names, in whatever case they were given; reject unknown ones."""
    options = {}
    for name, value in dict(given).items():
        if name.lower() in ignored:
            continue
        if name.lower() not in names:
            raise BadInput(f"the option {name!r}", nearest(name.lower(), names), WHERE)
        options[name.lower()] = value
    return options


def _needed(options: Mapping[str, str], name: str, what: str) -> str:
    if not options.get(name, "").strip():
        raise BadInput("nothing", what, f"{WHERE}, option {name}")
    return options[name].strip()


def _whole(options: Mapping[str, str], name: str, low: int, default: int | None = None) -> int:
    text = options.get(name, str(default)).strip()
    if not text.isdecimal() or int(text) < low:
        raise BadInput(repr(text), f"a whole number of at least {low}", f"{WHERE}, option {name}")
    return int(text)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise BadInput(repr(text), "true or false", f"{WHERE}, option {name}")
    return text == "true"
