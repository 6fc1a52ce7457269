"""Reads an offload case and writes the decision as JSON, for `evenflow offload`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, get_args

from evenflow import strict_json
from evenflow.brokers.load import Load, MemoryUse
from evenflow.brokers.offload import Algorithm, Candidate, Decision, Limits, OffloadState, PressSample, relations
from evenflow.brokers.offload_published import decide
from evenflow.errors import BadInput, nearest
from evenflow.subscriptions.language import LanguageError, parse_subscription
from evenflow.subscriptions.normal import Normal, form_covers, normalize

OTHER_SETTINGS = (  # of Table 5.2: allowed in a case, though no offload algorithm uses them
    "pie_ratio_threshold", "pie_delay_threshold", "local_pie_period", "global_pie_period", "press_samples",
    "press_timeout", "higher_overload_threshold", "local_delay_threshold", "global_ratio_threshold",
    "global_delay_threshold", "stabilize_duration", "stabilize_percentage", "local_detection_minimum",
    "local_detection_maximum", "global_detection_minimum", "global_detection_maximum", "smoothing_alpha",
    "global_request_threshold", "migration_timeout",
)  # fmt: skip
KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # required keys, and optional keys
    "": (
        ("algorithm", "overloaded", "press", "offloading", "accepting", "accepting_css", "subscriptions"),
        ("settings",),
    ),
    "settings": (
        (),
        (
            "balance_percentage",
            "lower_overload_threshold",
            "local_ratio_threshold",
            "delay_normalization",
            *OTHER_SETTINGS,
        ),
    ),
    "press": (("samples", "input_rate", "message_size"), ()),
    "broker": (("n_subs", "matching_delay", "input_rate", "output_used", "output_total", "cpu"), ("memory",)),
    "memory": (("input_queue", "output_queue", "engine", "total"), ()),
    "accepting_css": (("sub", "bits"), ()),
    "subscriptions": (("id", "sub", "subscribers", "bits"), ()),
}


def read(data: bytes, where: str) -> tuple[Algorithm, OffloadState]:
    """Read an offload case; the file holds the case itself, or an object with the case as ``input``."""
    return _Reader(where).case(_parse(data, where))


def answer(data: bytes, where: str) -> dict[str, Any]:
    """Return the decision of a case, in the form that ``--json`` prints."""
    algorithm, state = read(data, where)
    return as_json(decide(algorithm, state))


def as_json(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON."""
    return {
        "offload": [[pick.name, pick.subscribers] for pick in decision.picks],
        "steps": [pick.step for pick in decision.picks],
        "offloading_after": _load_json(decision.giver),
        "accepting_after": _load_json(decision.taker),
    }


def _load_json(load: Load) -> dict[str, Any]:
    return {
        "n_subs": load.n_subs,
        "matching_delay": load.matching_delay,
        "input_rate": load.input_rate,
        "output_used": load.output_used,
        "input_ratio": load.input_ratio,
        "output_ratio": load.output_ratio,
    }


def _parse(data: bytes, where: str) -> Any:
    try:
        raw = strict_json.loads(data)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BadInput(f"text that is no JSON ({error})", "an offload case as a JSON object", where) from error
    if isinstance(raw, dict) and "input" in raw:
        return raw["input"]
    return raw


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def case(self, raw: Any) -> tuple[Algorithm, OffloadState]:
        """Check everything and lay the state out."""
        raw = self.keys(raw, "", "case")
        algorithm = raw["algorithm"]
        if algorithm not in get_args(Algorithm):
            self.refuse(repr(algorithm), "'input', 'match' or 'output'", "algorithm")
        if not isinstance(raw["overloaded"], bool):
            self.refuse(repr(raw["overloaded"]), "true or false", "overloaded")
        sample = self.sample(raw["press"])
        names, candidates, forms = self.subscriptions(raw["subscriptions"], sample.samples)
        css_forms, known = self.css(raw["accepting_css"], sample.samples)
        above = relations(names, lambda a, b: form_covers(forms[a], forms[b]))
        state = OffloadState(
            self.broker(raw["offloading"], "offloading"),
            self.broker(raw["accepting"], "accepting"),
            sample,
            self.limits(raw.get("settings", {})),
            raw["overloaded"],
            candidates,
            above,
            known,
            {name for name in names if any(form_covers(form, forms[name]) for form in css_forms)},
        )
        return algorithm, state

    def refuse(self, given: str, allowed: str, place: str) -> NoReturn:
        """Raise `BadInput` with the place in the file."""
        raise BadInput(given if len(given) < 80 else f"{given[:77]}...", allowed, f"{self.where}: {place}")

    def keys(self, raw: Any, kind: str, place: str) -> dict[str, Any]:
        """Return an object; refuse other values, missing keys and unknown keys."""
        if not isinstance(raw, dict):
            self.refuse(repr(raw), "an object", place)
        needed, allowed = KEYS[kind]
        for key in needed:
            if key not in raw:
                self.refuse(f"no '{key}'", f"an object with {', '.join(needed)}", place)
        for key in raw:
            if key not in needed + allowed:
                self.refuse(f"the key '{key}'", nearest(key, needed + allowed), place)
        return raw

    def number(self, raw: Mapping[str, Any], key: str, place: str, low: float = 0.0, *, above: bool = False) -> float:
        """Return a finite number of at least ``low``, or with ``above`` greater than it."""
        value = raw[key]
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not good or value < low or (above and value == low):
            self.refuse(repr(value), f"a number {'above' if above else 'of at least'} {low:g}", f"{place}.{key}")
        return float(value)

    def whole(self, raw: Mapping[str, Any], key: str, place: str, low: int = 0) -> int:
        """Return a whole number of at least ``low``."""
        value = raw[key]
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            self.refuse(repr(value), f"a whole number of at least {low}", f"{place}.{key}")
        return value

    def limits(self, raw: Any) -> Limits:
        raw = self.keys(raw, "settings", "settings")
        given = {key: self.number(raw, key, "settings") for key in raw}
        usual = Limits()
        normalization = given.get("delay_normalization", usual.normalization)
        if not normalization:
            self.refuse("0", "a number above 0", "settings.delay_normalization")
        return Limits(
            given.get("balance_percentage", usual.balance),
            given.get("lower_overload_threshold", usual.lower),
            given.get("local_ratio_threshold", usual.difference),
            normalization,
        )

    def sample(self, raw: Any) -> PressSample:
        raw = self.keys(raw, "press", "press")
        return PressSample(
            self.whole(raw, "samples", "press"),
            self.number(raw, "input_rate", "press"),
            self.number(raw, "message_size", "press"),
        )

    def broker(self, raw: Any, place: str) -> Load:
        raw = self.keys(raw, "broker", place)
        memory = MemoryUse()
        if "memory" in raw:
            inner = self.keys(raw["memory"], "memory", f"{place}.memory")
            memory = MemoryUse(**{key: self.number(inner, key, f"{place}.memory") for key in inner})
        return Load(
            self.whole(raw, "n_subs", place),
            self.number(raw, "matching_delay", place),
            self.number(raw, "input_rate", place),
            self.number(raw, "output_used", place),
            self.number(raw, "output_total", place, above=True),
            self.number(raw, "cpu", place),
            memory,
        )

    def rows(self, raw: Any, key: str) -> Sequence[dict[str, Any]]:
        if not isinstance(raw, list):
            self.refuse(repr(raw), "a list of objects", key)
        return [self.keys(row, key, f"{key}[{number}]") for number, row in enumerate(raw)]

    def bits(self, row: Mapping[str, Any], samples: int, place: str) -> int:
        text = row["bits"]
        if not isinstance(text, str) or len(text) != samples or text.strip("01"):
            self.refuse(
                repr(text), f"{samples} digits 0 or 1, the right-most for the first publication", f"{place}.bits"
            )
        return int(text or "0", 2)

    def form(self, row: Mapping[str, Any], place: str) -> Normal | None:
        if not isinstance(row["sub"], str):
            self.refuse(repr(row["sub"]), "the text of a subscription", f"{place}.sub")
        try:
            return normalize(parse_subscription(row["sub"]))
        except LanguageError as error:
            self.refuse(repr(row["sub"]), f"a subscription ({error})", f"{place}.sub")

    def css(self, raw: Any, samples: int) -> tuple[list[Normal | None], int]:
        """Return the forms of the acceptor's covering set, and the union of its bits (Eq. 4.3)."""
        forms, known = [], 0
        for number, row in enumerate(self.rows(raw, "accepting_css")):
            place = f"accepting_css[{number}]"
            forms.append(self.form(row, place))
            known |= self.bits(row, samples, place)
        return forms, known

    def subscriptions(self, raw: Any, samples: int) -> tuple[list[str], dict[str, Candidate], dict[str, Normal | None]]:
        candidates, forms = dict[str, Candidate](), dict[str, Normal | None]()
        for number, row in enumerate(self.rows(raw, "subscriptions")):
            place = f"subscriptions[{number}]"
            name = row["id"]
            if not isinstance(name, str) or name in candidates:
                self.refuse(repr(name), "a text that no other subscription has", f"{place}.id")
            subscribers = self.whole(row, "subscribers", place)
            candidates[name] = Candidate(name, subscribers, self.bits(row, samples, place))
            forms[name] = self.form(row, place)
        return list(candidates), candidates, forms
