"""Topics, their filters and their listeners: the application's side of a processing node (DPSLB thesis, section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evenflow.errors import BadInput
from evenflow.expression import parse
from evenflow.slices.messages import Item


class Listener(Protocol):
    """What an application writes (Figure 18).

    ``state`` belongs to the item's slice and this topic, starts as ``None``, and travels with the slice.
    It must be plain data: it may cross a network.
    """

    def on_data(self, item: Item, state: Any) -> Any:
        """Process an item; return the new state."""
        ...

    def on_correlating_data(self, item: Item) -> None:
        """See an item of a slice that another node processes; only with ``filter=node``."""
        ...


class Count:
    """Count items per slice: the smallest useful listener."""

    def on_data(self, item: Item, state: Any) -> Any:
        """Add one."""
        return (state or 0) + 1

    def on_correlating_data(self, item: Item) -> None:
        """Ignore it."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A stream of items and who listens to it (Figure 19).

    Parameters
    ----------
    balance
        ``False``: every node receives every item, no slices involved.
    accepts
        A content filter over the item's value, ANDed with the slice filter.
    """

    name: str
    listener: Listener
    balance: bool = True
    accepts: Callable[[Mapping[str, Any]], bool] | None = None

    @classmethod
    def filtered(
        cls, name: str, listener: Listener, expression: str, parameters: Sequence[str] = (), *, balance: bool = True
    ) -> Topic:
        """Make a content-filtered topic.

        Examples
        --------
        >>> topic = Topic.filtered("sensors", Count(), "temperature > %0", ["30"])
        >>> topic.wants(Item(1, 0, "sensors", value={"temperature": 31}))
        True
        """
        parsed = parse(expression, parameters)
        if not parsed.is_condition:
            raise BadInput(repr(expression), "a condition, such as 'temperature > 30'", f"filter of topic {name!r}")
        return cls(name, listener, balance, parsed.test)

    def wants(self, item: Item) -> bool:
        """Say whether the item passes the topic's own filter."""
        return self.accepts is None or (isinstance(item.value, Mapping) and self.accepts(item.value))
