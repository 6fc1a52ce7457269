"""Who may say what to whom: a message that is well formed still has to be in place where it arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evenflow.dds.wire.fields import MalformedError, name
from evenflow.dds.wire.values import check_value
from evenflow.slices.balancer import Drain, LoadBalancer, Pause
from evenflow.slices.handoff import State
from evenflow.slices.messages import Action, Cargo, Confirm, Leave, Notification, Receipt, Refused
from evenflow.slices.node import ProcessingNode

Check = Callable[[str, Any], None]


def for_balancer(balancer: LoadBalancer, me: str) -> Check:
    """Return what refuses a message that a balancer cannot use, given its sender."""

    def check(sender: str, message: Any) -> None:
        if name(sender) == me:
            raise MalformedError("a message under the balancer's own name")
        if isinstance(message, Notification):
            if message.node != sender:
                raise MalformedError(f"a notification of {message.node!r} sent by {sender!r}")
        elif isinstance(message, Confirm):
            session = balancer.sessions.get(message.session)
            if session is not None and session.expects(message.step) and session.action(0)[0] != sender:
                raise MalformedError(f"{sender!r} confirms what {session.action(0)[0]!r} was asked for")
        elif not isinstance(message, (Drain, Pause)):
            raise MalformedError(f"a {type(message).__name__} to the balancer")

    return check


def for_node(node: ProcessingNode, kinds: Mapping[str, type]) -> Check:
    """Return what refuses a message that a node cannot use, given its sender.

    Parameters
    ----------
    kinds
        The dataclass of each topic's values.
    """

    def check(sender: str, message: Any) -> None:
        if name(sender) == node.name:
            raise MalformedError("a message under the node's own name")
        if isinstance(message, Cargo):
            _check_cargo(node, kinds, message)
        elif isinstance(message, Receipt):
            taker, _ = node.shipping.get(message.session, (sender, ()))
            if taker != sender:
                raise MalformedError(f"{sender!r} has a receipt for what went to {taker!r}")
        elif not isinstance(message, (Action, Leave, Refused)):
            raise MalformedError(f"a {type(message).__name__} to a node")
        elif sender != node.balancer:
            raise MalformedError(f"a {type(message).__name__} of {sender!r}, who is not the balancer")
        elif isinstance(message, Action):
            _check_action(node, message)
        elif isinstance(message, Leave) and node.held:
            raise MalformedError(f"a Leave while the node holds {len(node.held)} slices")

    return check


def _check_action(node: ProcessingNode, action: Action) -> None:
    """Refuse slices that do not exist or are in another session: its timers would find them in a state they cannot be in."""
    if max(action.slices) >= node.settings.slices:
        raise MalformedError(f"slice {max(action.slices)} of {node.settings.slices}")
    session = action.session
    done = session < max(node.over, action.over) or session in node.closed or action.step <= node.steps.get(session, 0)
    if done:
        return  # the node only answers
    inside = {s: held.session for s, held in node.held.items() if held.phase is not State.OWNING}
    ours = {s for s, other in inside.items() if other == session}
    if ours not in (set(), set(action.slices)) or any(inside.get(s, session) != session for s in action.slices):
        raise MalformedError(
            f"session {session} asks for {action.slices}, which are in another session or not all of it"
        )


def _check_cargo(node: ProcessingNode, kinds: Mapping[str, type], cargo: Cargo) -> None:
    for slice_id, parcel in cargo.parcels.items():
        if slice_id >= node.settings.slices:
            raise MalformedError(f"a cargo of slice {slice_id} of {node.settings.slices}")
        unknown = {*parcel.state, *(item.topic for item in parcel.cache)} - set(kinds)
        if unknown:
            raise MalformedError(f"a cargo of the topic {min(unknown)!r}")
        for item in parcel.cache:
            check_value(item.value, kinds[item.topic])
