"""What sessions expected of both brokers, next to what was measured once their load had settled (section 5.2.1.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.brokers.load import Load


@dataclass(slots=True)
class LoadEstimate:
    """What a session expected of one broker, and what was measured once its load had settled."""

    at: float
    session: str
    broker: str
    side: str
    input: float
    output: float
    delay: float
    measured: tuple[float, float, float] | None = None


@dataclass(slots=True)
class Estimates:
    """Follows the records of the brokers' actors.

    Parameters
    ----------
    measure
        Gives a broker's load now.
    done
        Every estimate whose broker has settled.
    """

    measure: Callable[[str], Load]
    done: list[LoadEstimate] = field(default_factory=list)
    _offloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _open: dict[str, LoadEstimate] = field(default_factory=dict)

    def observe(self, record: Mapping[str, Any]) -> LoadEstimate | None:
        """Take in one record; give the estimate that it completes."""
        kind = record["kind"]
        if kind == "offload":
            self._offloads[record["session"]] = record
        elif kind == "broker_session":
            self._expect(record)
        elif kind == "broker_status":
            return self._settled(record)
        return None

    def _expect(self, session: Mapping[str, Any]) -> None:
        """Remember what was estimated for both sides, to compare when they have settled."""
        record = self._offloads.pop(session["session"], None)
        if record is None or session["how"] != "done":
            return
        for side, broker, after in (
            ("offloader", record["giver"], record["giver_after"]),
            ("acceptor", record["taker"], record["taker_after"]),
        ):
            values = (after["input"], after["output"], after["delay"])
            self._open[broker] = LoadEstimate(session["at"], session["session"], broker, side, *values)

    def _settled(self, record: Mapping[str, Any]) -> LoadEstimate | None:
        estimate = self._open.get(record["broker"])
        if estimate is None or record["to"] not in ("OK", "BUSY", "N/A"):
            return None
        # A new session or an overload ends the wait: what would be measured is not the first session's doing.
        del self._open[estimate.broker]
        if record["to"] != "OK":
            return None
        load = self.measure(estimate.broker)
        estimate.measured = (load.input_ratio, load.output_ratio, load.matching_delay)
        self.done.append(estimate)
        return estimate


@dataclass(slots=True)
class SessionTrace:
    """Follows the brokers' records and tells sessions, what they expected, and what was measured.

    Parameters
    ----------
    tell
        Takes a record.
    load
        Gives the load, as samples have it, from the input and the output ratio.
    """

    tell: Callable[[Mapping[str, Any]], object]
    load: Callable[[float, float], float]
    _expected: dict[str, dict[str, float]] = field(default_factory=dict)

    def observe(self, record: Mapping[str, Any], estimate: LoadEstimate | None = None) -> None:
        """Take in one record, and the estimate that it completes."""
        if record["kind"] == "offload":
            sides = (record["giver"], record["giver_after"]), (record["taker"], record["taker_after"])
            self._expected[record["session"]] = {name: self.load(a["input"], a["output"]) for name, a in sides}
        elif record["kind"] == "broker_session":
            self._ended(record, self._expected.pop(record["session"], {}))
        if estimate is not None and estimate.measured is not None:
            about = {"session": estimate.session, "node": estimate.broker}
            self.tell({"kind": "effect", "at": record["at"], **about, "load": self.load(*estimate.measured[:2])})

    def _ended(self, session: Mapping[str, Any], expects: Mapping[str, float]) -> None:
        if session["how"] != "done" or not session["moved"]:
            return
        what = f"{session['moved']} subscribers"  # thousands of names would make the trace long
        why = f"{session['algorithm']} offload of {what}"
        names = {"giver": session["giver"], "taker": session["taker"], "what": what}
        about = {"kind": "session", "session": session["session"], **names, "why": why, "expects": expects}
        self.tell({**about, "at": session["began"], "step": "agreed"})
        self.tell({**about, "at": session["at"], "step": "done"})
