"""What the brokers' actors noted, in the words of every trace: a page and a reader know no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.brokers.estimates import Estimate


@dataclass(slots=True)
class Retelling:
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

    def follow(self, record: Mapping[str, Any], estimate: Estimate | None = None) -> None:
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
