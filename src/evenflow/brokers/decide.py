"""One door to the three offload algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evenflow.brokers.offload import Algorithm, Decision, Desk
from evenflow.brokers.offload_input import offload_input
from evenflow.brokers.offload_match import offload_match
from evenflow.brokers.offload_output import offload_output

ALGORITHMS: Mapping[Algorithm, Callable[[Desk], Decision]] = {
    "input": offload_input,
    "match": offload_match,
    "output": offload_output,
}


def decide(algorithm: Algorithm, desk: Desk) -> Decision:
    """Run an offload algorithm; the desk is used up."""
    return ALGORITHMS[algorithm](desk)
