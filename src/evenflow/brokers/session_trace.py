"""What sessions estimated for both brokers and what was measured later (section 5.2.1.7), and both as trace records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.brokers.load import Load


@dataclass(slots=True)
class LoadEstimate:
    """The load that a session estimated for one broker, and the load measured once it had settled."""

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
    """Collects estimates from the records of the brokers' actors.

    Parameters
    ----------
    measure
        Returns a broker's present load.
    done
        Every estimate whose broker has settled since.
    """

    measure: Callable[[str], Load]
    done: list[LoadEstimate] = field(default_factory=list)
    _offloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _open: dict[str, LoadEstimate] = field(default_factory=dict)

    def observe(self, record: Mapping[str, Any]) -> LoadEstimate | None:
        """Read one record; return the estimate that it completes, if any."""
        kind = record["kind"]
        if kind == "offload":
            self._offloads[record["session"]] = record
        elif kind == "broker_session":
            self._expect(record)
        elif kind == "broker_status":
            return self._settled(record)
        return None

    def _expect(self, session: Mapping[str, Any]) -> None:
        """Store the estimates for both brokers until their load has settled."""
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
        # After a new session or an overload, a measurement says nothing about the first session.
        del self._open[estimate.broker]
        if record["to"] != "OK":
            return None
        load = self.measure(estimate.broker)
        estimate.measured = (load.input_ratio, load.output_ratio, load.matching_delay)
        self.done.append(estimate)
        return estimate


@dataclass(slots=True)
class SessionTrace:
    """Turns the brokers' own records into the ``session`` and ``effect`` records that all systems' traces have.

    Parameters
    ----------
    write
        Writes a record.
    load
        Returns a broker's load, as in ``sample`` records, from its input and output ratio.
    """

    write: Callable[[Mapping[str, Any]], object]
    load: Callable[[float, float], float]
    _expected: dict[str, dict[str, float]] = field(default_factory=dict)

    def observe(self, record: Mapping[str, Any], estimate: LoadEstimate | None = None) -> None:
        """Read one record, and the estimate that it completes."""
        if record["kind"] == "offload":
            sides = (record["giver"], record["giver_after"]), (record["taker"], record["taker_after"])
            self._expected[record["session"]] = {name: self.load(a["input"], a["output"]) for name, a in sides}
        elif record["kind"] == "broker_session":
            self._ended(record, self._expected.pop(record["session"], {}))
        if estimate is not None and estimate.measured is not None:
            about = {"session": estimate.session, "node": estimate.broker}
            self.write({"kind": "effect", "at": record["at"], **about, "load": self.load(*estimate.measured[:2])})

    def _ended(self, session: Mapping[str, Any], expects: Mapping[str, float]) -> None:
        if session["how"] != "done" or not session["moved"]:
            return
        what = f"{session['moved']} subscribers"  # thousands of names would make the trace long
        why = f"{session['algorithm']} offload of {what}"
        names = {"giver": session["giver"], "taker": session["taker"], "what": what}
        about = {"kind": "session", "session": session["session"], **names, "why": why, "expects": expects}
        self.write({**about, "at": session["began"], "step": "agreed"})
        self.write({**about, "at": session["at"], "step": "done"})
