"""A participant of a DDS domain that speaks to this machine alone, unless the user has configured Cyclone otherwise."""

from __future__ import annotations

import os
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
HIGHEST_DOMAIN = 230  # the ports of DDS domains end there


def configuration() -> str:
    """Return the Cyclone configuration in force: the user's own, or loopback alone."""
    return os.environ.get(URI) or LOOPBACK


def participant(domain: int) -> Any:
    """Join a domain.

    Raises
    ------
    BadInput
        When the domain's number is out of range, or Cyclone refuses its configuration.
    """
    if not 0 <= domain <= HIGHEST_DOMAIN:
        raise BadInput(str(domain), f"a whole number from 0 to {HIGHEST_DOMAIN}", "domain")
    os.environ[URI] = configuration()  # Cyclone reads it when the first participant of a process is made
    try:
        return DomainParticipant(domain)
    except DDSException as error:
        raise BadInput(f"a configuration that Cyclone refuses ({error})", "a Cyclone configuration", URI) from error


def reliable(blocking_s: float = 1.0) -> Any:
    """Return the QoS of every topic here: reliable, everything kept until the readers have it."""
    return Qos(
        Policy.Reliability.Reliable(duration(milliseconds=int(blocking_s * 1000))),
        Policy.History.KeepAll,
        Policy.Durability.Volatile,
    )
