"""A participant of a DDS domain that speaks to this machine alone, unless the user has configured Cyclone otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from evenflow.errors import BadInput

try:
    from cyclonedds.core import DDSException
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.qos import Policy, Qos
    from cyclonedds.util import duration
except ImportError as missing:  # pragma: no cover - the extra is installed wherever tests run
    raise BadInput(f"no cyclonedds ({missing})", "an installation of evenflow[dds]", "import evenflow.dds") from missing

URI = "CYCLONEDDS_URI"
LOOPBACK = (
    '<CycloneDDS><Domain Id="any">'
    '<General><Interfaces><NetworkInterface name="lo" multicast="false"/></Interfaces>'
    "<AllowMulticast>false</AllowMulticast></General>"
    "<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>120</MaxAutoParticipantIndex>"
    '<Peers><Peer address="127.0.0.1"/></Peers></Discovery>'
    "</Domain></CycloneDDS>"
)
PATIENT = LOOPBACK.replace(
    "</Domain>",
    "<Internal><MultipleReceiveThreads>true</MultipleReceiveThreads></Internal></Domain>",
)
"""For a process whose reader may be full for long: Cyclone's receive thread waits for such a reader. If the same thread
received the signs of life, all writers would be taken for dead after ten seconds, and what they write would be lost."""
HIGHEST_DOMAIN = 230  # the ports of DDS domains end there


def configuration(default: str = LOOPBACK) -> str:
    """Return the Cyclone configuration in force: the user's own, or loopback alone."""
    given = os.environ.get(URI)
    return default if not given or given in (LOOPBACK, PATIENT) else given


def participant(domain: int, default: str = LOOPBACK) -> Any:
    """Join a domain, with ``default`` as Cyclone's configuration where the user gave none.

    Raises
    ------
    BadInput
        When the domain's number is out of range, or Cyclone refuses its configuration.
    """
    if not 0 <= domain <= HIGHEST_DOMAIN:
        raise BadInput(str(domain), f"a whole number from 0 to {HIGHEST_DOMAIN}", "domain")
    os.environ[URI] = configuration(default)  # Cyclone reads it when the first participant of a process is made
    try:
        return DomainParticipant(domain)
    except DDSException as error:
        raise BadInput(f"a configuration that Cyclone refuses ({error})", "a Cyclone configuration", URI) from error


def quality(policies: Mapping[str, str] | None = None, most: int = -1) -> Any:
    """Return a QoS by the names of its policies.

    Parameters
    ----------
    policies
        ``reliability``: ``reliable`` or ``best_effort``; ``history``: ``keep_all`` or ``keep_last:N``;
        ``durability``: ``volatile`` or ``transient_local``. The first of each is what it is if not given.
    most
        Samples that a reader or writer holds; a reliable writer waits where a reader has so many. -1: no bound.

    Raises
    ------
    BadInput
        Naming the policy.
    """
    given = policies or {}
    reliability, history = given.get("reliability", "reliable"), given.get("history", "keep_all")
    durability = given.get("durability", "volatile")
    found: list[Any] = [Policy.ResourceLimits(max_samples=most)]
    if reliability == "reliable":
        found.append(Policy.Reliability.Reliable(duration(seconds=1)))
    elif reliability == "best_effort":
        found.append(Policy.Reliability.BestEffort)
    else:
        raise BadInput(repr(reliability), "'reliable' or 'best_effort'", "reliability")
    kind, _, depth = history.partition(":")
    if history == "keep_all":
        found.append(Policy.History.KeepAll)
    elif kind == "keep_last" and depth.isdecimal() and int(depth) > 0:
        found.append(Policy.History.KeepLast(int(depth)))
    else:
        raise BadInput(repr(history), "'keep_all' or 'keep_last:' and a number", "history")
    if durability == "volatile":
        found.append(Policy.Durability.Volatile)
    elif durability == "transient_local":
        # without the second policy a writer keeps one sample for readers that come later
        found += [
            Policy.Durability.TransientLocal,
            Policy.DurabilityService(0, Policy.History.KeepAll, -1, -1, -1),
        ]
    else:
        raise BadInput(repr(durability), "'volatile' or 'transient_local'", "durability")
    return Qos(*found)


def reliable(blocking_s: float = 1.0) -> Any:
    """Return the QoS of every topic here: reliable, everything kept until the readers have it."""
    return Qos(
        Policy.Reliability.Reliable(duration(milliseconds=int(blocking_s * 1000))),
        Policy.History.KeepAll,
        Policy.Durability.Volatile,
    )


def received(writer: Any, within_s: float) -> bool:
    """Say whether all readers of a writer have received everything within ``within_s`` seconds.

    The binding's own ``wait_for_acks`` fails with an ``AttributeError`` when the time is over.

    Raises
    ------
    DDSException
        When Cyclone cannot tell.
    """
    code = writer._wait_for_acks(writer._ref, int(within_s * 1e9))  # noqa: SLF001
    if code not in (0, DDSException.DDS_RETCODE_TIMEOUT):
        raise DDSException(code, "while waiting for readers")
    return bool(code == 0)
