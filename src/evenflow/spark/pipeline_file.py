"""Pipeline files: reads a TOML file and checks every table and key; errors name the place in the file."""

from __future__ import annotations

import dataclasses
import tomllib
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from evenflow.errors import BadInput, nearest
from evenflow.spark.kit.controller import Balancing

Options = dict[str, str]
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """The table ``[spark]``: where the pipeline runs, unless ``spark-submit`` decides it."""

    master: str = "local[*]"
    name: str = "evenflow"
    settings: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """The table ``[source]``: the input, and the selection applied before it is divided into slices."""

    format: str
    path: str = ""
    table: str = ""
    schema: str = ""
    options: Options = field(default_factory=dict)
    select: Names = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class Divide:
    """The keys of ``[balance]`` that are fixed with the checkpoint; its other keys are the fields of :class:`Balancing`."""

    by: Names = ()
    slices: int = 256
    lanes: int = 8
    used: int | None = None
    assign: str = "hash"
    nulls: str | int = "refuse"


@dataclass(frozen=True, slots=True)
class Work:
    """The table ``[process]``: one of ``function``, ``each`` and ``map``, as ``module:name``."""

    output: str
    function: str = ""
    each: str = ""
    map: str = ""
    state: str = ""
    correlate: bool = False
    dead_letters: str | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """The table ``[sink]``: where the output goes, and when a batch begins."""

    format: str
    checkpoint: str
    path: str = ""
    table: str = ""
    mode: Literal["append", "update"] = "append"
    options: Options = field(default_factory=dict)
    partition_by: Names = ()
    trigger: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The content of a pipeline file; ``where`` is the file's name, for error messages."""

    where: str
    spark: Session
    source: Source
    divide: Divide
    balancing: Balancing
    work: Work
    sink: Sink

    def place(self, table: str, key: str) -> str:
        """Return the name of a key in error messages."""
        return f"{self.where}: [{table}] {key}"


def read_pipeline(path: Path) -> Pipeline:
    """Read and check a file, without starting anything or importing any of the user's modules.

    Raises
    ------
    BadInput
        For a file that cannot be read, an unknown or missing table or key, or a value of the wrong type.
    """
    where = path.name
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"'{path}' ({error.strerror})", "a file that can be read", "FILE") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"'{error}'", "TOML", where) from None
    known = ("spark", "source", "balance", "process", "sink")
    for name, table in tables.items():
        if name not in known:
            raise BadInput("an unknown table", nearest(name, known), f"{where}: [{name}]")
        if not isinstance(table, dict):
            raise BadInput(repr(table), f"a table, [{name}]", f"{where}: {name}")
    for name in known[1:]:
        if name not in tables:
            raise BadInput("nothing", "a table of this name", f"{where}: [{name}]")
    balance = tables["balance"]
    own = {f.name for f in dataclasses.fields(Divide)}
    _check_names(balance, [*own, *_fields(Balancing)], f"{where}: [balance]")
    try:
        balancing = _built(Balancing, {k: v for k, v in balance.items() if k not in own}, f"{where}: [balance]")
    except BadInput as error:
        raise BadInput(error.given, error.allowed, _in_file(error.where, f"{where}: [balance]")) from None
    pipeline = Pipeline(
        where=where,
        spark=_built(Session, tables.get("spark", {}), f"{where}: [spark]"),
        source=_built(Source, tables["source"], f"{where}: [source]"),
        divide=_built(Divide, {k: v for k, v in balance.items() if k in own}, f"{where}: [balance]"),
        balancing=balancing,
        work=_built(Work, tables["process"], f"{where}: [process]"),
        sink=_built(Sink, tables["sink"], f"{where}: [sink]"),
    )
    _check_choices(pipeline)
    return pipeline


def load_function(name: str, where: str) -> Callable[..., Any]:
    """Import and return the function that ``module:name`` refers to."""
    found = load_value(name, where)
    if not callable(found):
        raise BadInput(f"'{name}', of type {type(found).__name__}", "a function", where)
    function: Callable[..., Any] = found
    return function


def load_value(name: str, where: str) -> Any:
    """Import and return the object that ``module:name`` refers to."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise BadInput(repr(name), "module:name", where)
    try:
        found = import_module(module)
    except ImportError as error:
        raise BadInput(f"{name!r} ({error})", "a module beside the file, beside you or installed", where) from None
    if not hasattr(found, attribute):
        names = [n for n in vars(found) if not n.startswith("_")]
        raise BadInput(repr(name), f"a name in module {module}: {nearest(attribute, names)}", where)
    return getattr(found, attribute)


def _check_choices(pipeline: Pipeline) -> None:
    work, sink, source, place = pipeline.work, pipeline.sink, pipeline.source, pipeline.place
    given = [key for key in ("function", "each", "map") if getattr(work, key)]
    if len(given) != 1:
        raise BadInput(" and ".join(given) or "none of them", "one of function, each and map", place("process", ""))
    for key in ("state", "correlate"):
        if getattr(work, key) and given != ["function"]:
            raise BadInput(f"{key} with {given[0]}", "it with function", place("process", key))
    for name, table in (("sink", sink), ("source", source)):
        if table.path and table.table:
            raise BadInput("path and table", "one of the two", place(name, "table"))
    if not sink.checkpoint:
        raise BadInput("an empty text", "a directory: slices and their moves live there", place("sink", "checkpoint"))
    trigger = sink.trigger.split()
    if sink.trigger and sink.trigger != "availableNow" and not (len(trigger) == 2 and trigger[0].isdigit()):
        allowed = "'availableNow', or a time such as '10 seconds'"
        raise BadInput(repr(sink.trigger), allowed, place("sink", "trigger"))


def _fields(kind: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    return {f.name: f for f in dataclasses.fields(kind)}


def _check_names(table: Mapping[str, Any], known: list[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise BadInput("an unknown key", nearest(key, known), f"{where} {key}")


def _built(kind: type[Any], table: Mapping[str, Any], where: str) -> Any:
    fields = _fields(kind)
    _check_names(table, list(fields), where)
    for key, f in fields.items():
        if f.default is MISSING and f.default_factory is MISSING and key not in table:
            raise BadInput("nothing", f"{_described(get_type_hints(kind)[key])}, which is needed", f"{where} {key}")
    hints = get_type_hints(kind)
    return kind(**{key: _value(hints[key], value, f"{where} {key}") for key, value in table.items()})


def _value(kind: Any, value: Any, where: str) -> Any:
    """Return a TOML value converted to a field's type; reject a value of another type."""
    if get_origin(kind) in (types.UnionType, Union):
        inner = [k for k in get_args(kind) if k is not type(None)]
        matching = [k for k in inner if type(value) is k] or inner[:1]
        return _value(matching[0], value, where)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise BadInput(repr(value), nearest(str(value), get_args(kind)), where)
        return value
    if kind == Options and isinstance(value, dict):
        return _options(value, where)
    if kind == Names and isinstance(value, (str, list)):
        names = [value] if isinstance(value, str) else value
        if all(isinstance(name, str) for name in names):
            return tuple(names)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is kind:  # not isinstance: true is not a whole number
        return value
    raise BadInput(repr(value), _described(kind), where)


def _described(kind: Any) -> str:
    if kind == Names:
        return "a text or a list of texts"
    if kind == Options:
        return "a table of options"
    return {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}.get(kind, str(kind))


def _options(table: Mapping[str, Any], where: str, before: str = "") -> Options:
    """Return options as flat text for Spark; TOML reads ``kafka.group.id = …`` without quotes as nested tables."""
    found: Options = {}
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            found |= _options(value, where, f"{name}.")
        elif isinstance(value, bool):
            found[name] = str(value).lower()
        elif isinstance(value, (str, int, float)):
            found[name] = str(value)
        else:
            raise BadInput(repr(value), "a text, a number, true or false", f"{where}.{name}")
    return found


def _in_file(where: str, table: str) -> str:
    return where if where.startswith(table) else f"{table} {where}"
