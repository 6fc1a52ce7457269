"""The nine micro studies of Cheung 2006, section 5.3: one variable each, and whether the published conclusion holds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from evenflow.experiments.brokers.overlay import BrokerSpec
from evenflow.experiments.brokers.padres_global import GlobalSettings, cluster_fields, specs_of
from evenflow.experiments.brokers.padres_local import SPECS
from evenflow.experiments.brokers.settings import PadresSettings
from evenflow.experiments.brokers.summary import summarize
from evenflow.experiments.brokers.verdicts import VERDICTS
from evenflow.experiments.brokers.world import BrokerWorld
from evenflow.experiments.figures import SERIES, Figure, Series, Table
from evenflow.experiments.registry import Experiment, Row, TraceWriter
from evenflow.experiments.settings import setting

VALUES: Mapping[str, Sequence[float]] = {
    "subscribers": (1000, 2000, 3000, 4000),
    "zero-traffic": (0.0, 0.1, 0.2, 0.4, 0.6, 0.8),
    "edge-brokers": (2, 3, 4, 5, 6),
    "press-samples": (1, 5, 10, 50, 100, 500),
    "local-threshold": (0.02, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.7),
    "local-pie": (20, 30, 60, 120, 180, 300),
    "clusters": (2, 3, 4, 6, 8),
    "global-threshold": (0.1, 0.15, 0.2, 0.3, 0.5),
    "global-pie": (30, 60, 120, 240),
}
FIGURES: Mapping[str, Sequence[tuple[str, str]]] = {  # figure and field
    "subscribers": (("5.23", "convergence_s"), ("5.24", "std_delay_s"), ("5.25", "std_input"), ("5.25", "std_output"), ("5.26", "error_input"), ("5.27", "error_output")),
    "zero-traffic": (("5.28", "std_input"), ("5.28", "std_output"), ("5.29", "std_delay_s"), ("5.30", "convergence_s")),
    "edge-brokers": (("5.31", "delivery_delay_s"), ("5.32", "std_input"), ("5.32", "std_output"), ("5.33", "std_delay_s"), ("5.34", "convergence_s")),
    "press-samples": (("5.35", "error_input"), ("5.36", "error_output"), ("5.37", "convergence_s"), ("5.38", "b1_max_input"), ("5.39", "b1_overloaded_s")),
    "local-threshold": (("5.40", "std_input"), ("5.40", "std_output"), ("5.41", "std_delay_s"), ("5.42", "sessions"), ("5.43", "overhead_steady_pct")),
    "local-pie": (("5.44", "convergence_s"), ("5.45", "b1_max_input"), ("5.46", "overhead_steady_pct")),
    "clusters": (("5.47", "delivery_delay_s"), ("5.48", "convergence_global_s"), ("5.49", "cluster_input"), ("5.50", "cluster_output"), ("5.51", "cluster_delay_s"), ("5.52", "cluster_shares")),
    "global-threshold": (("5.53", "cluster_std_input"), ("5.53", "cluster_std_output"), ("5.54", "std_delay_s"), ("5.55", "sessions")),
    "global-pie": (("5.56", "overhead_steady_pct"), ("5.57", "convergence_global_s")),
}  # fmt: skip
KEPT = (
    "convergence_s", "sessions", "empty_sessions", "input_sessions", "last_move_before_change_s", "std_input",
    "std_output", "std_delay_s", "overhead_steady_pct", "delivery_delay_s", "b1_max_input", "b1_overloaded_s",
    "lost", "duplicated", "moved", "cluster_input", "cluster_output", "cluster_delay_s", "cluster_shares",
    "cluster_std_input", "cluster_std_output", "convergence_global_s", "global_sessions", "shares",
)  # fmt: skip


@dataclass(frozen=True)
class MicroSettings(PadresSettings):
    """The settings of `padres-micro`."""

    study: Literal[
        "subscribers", "zero-traffic", "edge-brokers", "press-samples", "local-threshold",
        "local-pie", "clusters", "global-threshold", "global-pie",
    ] = setting("press-samples", "which study")  # fmt: skip
    all: bool = setting(default=False, help="run every study")
    keep: str | None = setting(None, "a directory for finished points: a run that was broken off goes on from there")
    values: str = setting("", "the values to try, separated by commas; empty means the study's own")
    seconds: float = setting(3000.0, "virtual seconds; there is no change of rates", low=600.0, high=50_000.0)
    global_seconds: float = setting(6000.0, "virtual seconds of the studies with clusters", low=600.0, high=50_000.0)


def run(settings: MicroSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one seed of one study, or of all."""
    studies = list(VALUES) if settings.all else [settings.study]
    points = {
        study: [
            {"value": value, **kept_point(settings, study, value, seed, trace)} for value in _values(settings, study)
        ]
        for study in studies
    }
    found: dict[str, Any] = {
        "runs": sum(map(len, points.values())),
        "lost": sum(p["lost"] for ps in points.values() for p in ps),
        "duplicated": sum(p["duplicated"] for ps in points.values() for p in ps),
    }
    for study, one in points.items():
        found[f"{study}_holds"] = all(holds for _, holds, _ in VERDICTS[study](one))
    return {**found, SERIES: points}


def _values(settings: MicroSettings, study: str) -> list[float]:
    if settings.values and not settings.all:
        return [float(word) for word in settings.values.split(",")]
    return list(VALUES[study])


def kept_point(
    settings: MicroSettings, study: str, value: float, seed: int, trace: TraceWriter | None
) -> dict[str, Any]:
    """Return one point: the one that an earlier run with the same settings kept, or a new one."""
    if settings.keep is None:
        return point(settings, study, value, seed, trace)
    same = {**asdict(settings), "keep": None, "study": study, "all": False, "values": ""}
    name = blake2b(json.dumps([same, value, seed], sort_keys=True).encode(), digest_size=8).hexdigest()
    file = Path(settings.keep) / study / f"{value:g}-{seed}-{name}.json"
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    found = point(settings, study, value, seed, trace)
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_suffix(".new")
    hidden.write_text(json.dumps(found))
    hidden.rename(file)  # atomic: an interrupted run leaves no half-written file
    return found


def point(settings: MicroSettings, study: str, value: float, seed: int, trace: TraceWriter | None) -> dict[str, Any]:
    """Run the brokers with one value of one variable."""
    build = GLOBAL_WORLDS.get(study)
    world = build(settings, value, seed, trace) if build else _local(settings, study, value, seed, trace)
    world.run()
    row = summarize(world)
    if build:
        row.update(cluster_fields(world))
    errors = row["estimation"]
    kept = {name: row[name] for name in KEPT if name in row}
    for index in ("input", "output"):
        mean = [errors[index][side]["mean_points"] for side in ("offloader", "acceptor")]
        std = [errors[index][side]["std_points"] for side in ("offloader", "acceptor")]
        kept[f"error_{index}"] = _mean(mean)
        kept[f"error_std_{index}"] = _mean(std)
    return kept


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _local(settings: MicroSettings, study: str, value: float, seed: int, trace: TraceWriter | None) -> BrokerWorld:
    common = replace(settings, change_at=settings.seconds)
    specs: Sequence[BrokerSpec] = SPECS
    if study == "subscribers":  # four join per second (section 5.3.1.1)
        joined = settings.join_from + value / 4
        end = joined + 2500.0
        common = replace(common, subscribers=int(value), join_until=joined, seconds=end, change_at=end)
    elif study == "zero-traffic":
        common = replace(common, zero_traffic=value)
    elif study == "edge-brokers":
        edges = [BrokerSpec(f"B{n}", "B0", "B0", 500, 64, 3) for n in range(1, int(value) + 1)]
        specs = [SPECS[0], *edges]
    elif study == "press-samples":
        common = replace(common, press_samples=int(value))
    elif study == "local-threshold":
        common = replace(common, local_threshold=value, global_threshold=max(0.15, value))
    else:
        common = replace(common, local_pie_s=value)
    return BrokerWorld(common, specs, (), "B1", seed, trace)


def _with_clusters(settings: MicroSettings, seed: int, trace: TraceWriter | None, **more: Any) -> BrokerWorld:
    kept = {f.name: getattr(settings, f.name) for f in fields(PadresSettings)}
    kept.update(zero_traffic=0.2, seconds=settings.global_seconds, change_at=settings.global_seconds)
    wanted = GlobalSettings(**{**kept, **more})
    specs, links = specs_of(wanted)
    return BrokerWorld(wanted, specs, links, "B11", seed, trace)


GLOBAL_WORLDS: Mapping[str, Callable[[MicroSettings, float, int, TraceWriter | None], BrokerWorld]] = {
    "clusters": lambda s, v, seed, t: _with_clusters(s, seed, t, clusters=int(v), equal=True),
    "global-threshold": lambda s, v, seed, t: _with_clusters(s, seed, t, topology="star", global_threshold=v),
    "global-pie": lambda s, v, seed, t: _with_clusters(s, seed, t, topology="star", global_pie_s=v),
}


def averaged(rows: Sequence[Row], study: str) -> list[dict[str, Any]]:
    """Return the points averaged over all seeds, as the thesis does with three."""
    columns: list[list[Any]] = [list(ps) for ps in zip(*(row[SERIES][study] for row in rows), strict=True)]  # type: ignore[index]
    found = []
    for same in columns:
        point_of: dict[str, Any] = {"value": same[0]["value"]}
        for name, first in same[0].items():
            if isinstance(first, Mapping):
                point_of[name] = {k: statistics.fmean(p[name][k] for p in same) for k in first}
            elif name != "value":
                point_of[name] = _mean([p[name] for p in same])
        point_of["converged"] = sum(p["convergence_s"] is not None for p in same) / len(same)
        found.append(point_of)
    return found


def micro_figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Return each study's figures by number, and a table of whether the published conclusions hold."""
    parts: list[Figure | Table] = []
    verdicts: list[list[object]] = []
    for study in rows[0][SERIES]:  # type: ignore[attr-defined]
        points = averaged(rows, study)
        for sentence, holds, seen in VERDICTS[study](points):
            verdicts.append([study, sentence, "holds" if holds else "does not hold", seen])
        for number, field in FIGURES[study]:
            parts.append(_picture(study, number, field, points))
    columns = ["study", "conclusion of the thesis", "here", "numbers"]
    caption = f"Computed from the averages over {len(rows)} seeds."
    return [Table("Do the conclusions of section 5.3 hold?", columns, verdicts, caption), *parts]


def _picture(study: str, number: str, field: str, points: Sequence[Mapping[str, Any]]) -> Figure:
    title = f"Figure {number}: {field.replace('_', ' ')} over {study.replace('-', ' ')}"
    if isinstance(points[-1].get(field), Mapping):
        bars = points[-1][field]
        return Figure(title, "cluster", field, [Series(field, list(bars), list(bars.values()), "bars")])
    xs = [p["value"] for p in points]
    return Figure(title, study, field, [Series(field, xs, [p.get(field) for p in points])])


MICRO = Experiment(
    "padres-micro",
    "one variable at a time, and whether the thesis's conclusion holds (Cheung 2006, 5.3).",
    MicroSettings,
    run,
    micro_figures,
    options=("study", "all"),
    seeds=(1, 2, 3),
)
