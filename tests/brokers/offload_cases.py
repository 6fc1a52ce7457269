"""Small offload cases, written in one line each."""

from __future__ import annotations

from typing import Any

from evenflow.brokers.load import Load
from evenflow.brokers.offload import Candidate, Limits, OffloadState, PressSample, relations
from evenflow.subscriptions.covering import covers
from evenflow.subscriptions.language import parse_subscription


def broker(
    n: int = 100, delay: float = 0.01, rate: float = 10.0, out: float = 10_000.0, cpu: float | None = None
) -> Load:
    """A broker with 100 kbit/s of output."""
    return Load(n, delay, rate, out, 100_000.0, rate * delay if cpu is None else cpu)


def offload_state(giver: Load, taker: Load, subs: dict[str, tuple[str, int, str]], **more: Any) -> OffloadState:
    """A case: ``{id: (subscription, subscribers, bits)}``, ten samples at 10 msg/s of 1000 bits unless said otherwise."""
    forms = {name: parse_subscription(text) for name, (text, _, _) in subs.items()}
    css = {parse_subscription(text): int(bits, 2) for text, bits in more.pop("css", {}).items()}
    known = 0
    for bits in css.values():
        known |= bits
    return OffloadState(
        giver,
        taker,
        more.pop("sample", PressSample(10, 10.0, 1000.0)),
        more.pop("limits", Limits()),
        more.pop("overloaded", False),
        {name: Candidate(name, number, int(bits, 2)) for name, (_, number, bits) in subs.items()},
        relations(forms, lambda a, b: covers(forms[a], forms[b])),
        known,
        {name for name, form in forms.items() if any(covers(wide, form) for wide in css)},
        **more,
    )


def sub(letter: str, above: int | None = None) -> str:
    """A subscription of class ``letter``; with ``above`` a narrower one."""
    return f"[class,eq,'{letter}']" + ("" if above is None else f",[x,>,{above}]")
