"""One offload decision as JSON: what `evenflow offload` reads and writes."""

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

OTHER_SETTINGS = (  # of Table 5.2, which a case may carry though no offload algorithm reads them
    "pie_ratio_threshold", "pie_delay_threshold", "local_pie_period", "global_pie_period", "press_samples",
    "press_timeout", "higher_overload_threshold", "local_delay_threshold", "global_ratio_threshold",
    "global_delay_threshold", "stabilize_duration", "stabilize_percentage", "local_detection_minimum",
    "local_detection_maximum", "global_detection_minimum", "global_detection_maximum", "smoothing_alpha",
    "global_request_threshold", "migration_timeout",
)  # fmt: skip
KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # what must be there, and what may be
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
    """Read an offload case; the file is the case itself or an object that has it as ``input``."""
    return _Reader(where).case(_parse(data, where))


def answer(data: bytes, where: str) -> dict[str, Any]:
    """Read a case and decide it, in the shape that ``--json`` prints."""
    algorithm, state = read(data, where)
    return as_json(decide(algorithm, state))


def as_json(decision: Decision) -> dict[str, Any]:
    """Give a decision as JSON."""
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
        found = strict_json.loads(data)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BadInput(f"text that is no JSON ({error})", "an offload case as a JSON object", where) from error
    if isinstance(found, dict) and "input" in found:
        return found["input"]
    return found


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def case(self, found: Any) -> tuple[Algorithm, OffloadState]:
        """Check everything and lay the state out."""
        found = self.keys(found, "", "case")
        algorithm = found["algorithm"]
        if algorithm not in get_args(Algorithm):
            self.refuse(repr(algorithm), "'input', 'match' or 'output'", "algorithm")
        if not isinstance(found["overloaded"], bool):
            self.refuse(repr(found["overloaded"]), "true or false", "overloaded")
        sample = self.sample(found["press"])
        names, candidates, forms = self.subscriptions(found["subscriptions"], sample.samples)
        css_forms, known = self.css(found["accepting_css"], sample.samples)
        above = relations(names, lambda a, b: form_covers(forms[a], forms[b]))
        state = OffloadState(
            self.broker(found["offloading"], "offloading"),
            self.broker(found["accepting"], "accepting"),
            sample,
            self.limits(found.get("settings", {})),
            found["overloaded"],
            candidates,
            above,
            known,
            {name for name in names if any(form_covers(form, forms[name]) for form in css_forms)},
        )
        return algorithm, state

    def refuse(self, given: str, allowed: str, place: str) -> NoReturn:
        """Say what is wrong and where."""
        raise BadInput(given if len(given) < 80 else f"{given[:77]}...", allowed, f"{self.where}: {place}")

    def keys(self, found: Any, kind: str, place: str) -> dict[str, Any]:
        """Refuse what is no object, and missing and unknown keys."""
        if not isinstance(found, dict):
            self.refuse(repr(found), "an object", place)
        needed, allowed = KEYS[kind]
        for key in needed:
            if key not in found:
                self.refuse(f"no '{key}'", f"an object with {', '.join(needed)}", place)
        for key in found:
            if key not in needed + allowed:
                self.refuse(f"the key '{key}'", nearest(key, needed + allowed), place)
        return found

    def number(self, found: Mapping[str, Any], key: str, place: str, low: float = 0.0, *, above: bool = False) -> float:
        """Read a finite number of at least ``low``, or above it."""
        value = found[key]
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not good or value < low or (above and value == low):
            self.refuse(repr(value), f"a number {'above' if above else 'of at least'} {low:g}", f"{place}.{key}")
        return float(value)

    def whole(self, found: Mapping[str, Any], key: str, place: str, low: int = 0) -> int:
        """Read a whole number of at least ``low``."""
        value = found[key]
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            self.refuse(repr(value), f"a whole number of at least {low}", f"{place}.{key}")
        return value

    def limits(self, found: Any) -> Limits:
        found = self.keys(found, "settings", "settings")
        given = {key: self.number(found, key, "settings") for key in found}
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

    def sample(self, found: Any) -> PressSample:
        found = self.keys(found, "press", "press")
        return PressSample(
            self.whole(found, "samples", "press"),
            self.number(found, "input_rate", "press"),
            self.number(found, "message_size", "press"),
        )

    def broker(self, found: Any, place: str) -> Load:
        found = self.keys(found, "broker", place)
        memory = MemoryUse()
        if "memory" in found:
            inner = self.keys(found["memory"], "memory", f"{place}.memory")
            memory = MemoryUse(**{key: self.number(inner, key, f"{place}.memory") for key in inner})
        return Load(
            self.whole(found, "n_subs", place),
            self.number(found, "matching_delay", place),
            self.number(found, "input_rate", place),
            self.number(found, "output_used", place),
            self.number(found, "output_total", place, above=True),
            self.number(found, "cpu", place),
            memory,
        )

    def rows(self, found: Any, key: str) -> Sequence[dict[str, Any]]:
        if not isinstance(found, list):
            self.refuse(repr(found), "a list of objects", key)
        return [self.keys(row, key, f"{key}[{number}]") for number, row in enumerate(found)]

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

    def css(self, found: Any, samples: int) -> tuple[list[Normal | None], int]:
        """Read the acceptor's covering set: its forms, and the union of its bits (Eq. 4.3)."""
        forms, known = [], 0
        for number, row in enumerate(self.rows(found, "accepting_css")):
            place = f"accepting_css[{number}]"
            forms.append(self.form(row, place))
            known |= self.bits(row, samples, place)
        return forms, known

    def subscriptions(
        self, found: Any, samples: int
    ) -> tuple[list[str], dict[str, Candidate], dict[str, Normal | None]]:
        candidates, forms = dict[str, Candidate](), dict[str, Normal | None]()
        for number, row in enumerate(self.rows(found, "subscriptions")):
            place = f"subscriptions[{number}]"
            name = row["id"]
            if not isinstance(name, str) or name in candidates:
                self.refuse(repr(name), "a text that no other subscription has", f"{place}.id")
            subscribers = self.whole(row, "subscribers", place)
            candidates[name] = Candidate(name, subscribers, self.bits(row, samples, place))
            forms[name] = self.form(row, place)
        return list(candidates), candidates, forms
