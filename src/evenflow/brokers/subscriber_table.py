"""Which subscribers a broker serves, and which of them are on their way out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class SubscriberTable:
    """Subscribers by subscription, in the order in which they came."""

    by_key: dict[int, dict[str, None]] = field(default_factory=dict)
    key_of: dict[str, int] = field(default_factory=dict)
    leaving: dict[str, str] = field(default_factory=dict)  # subscriber to session
    version: int = 0  # grows when somebody comes or goes

    def add(self, subscriber: str, key: int) -> None:
        """Take in a subscriber; one that is there stays as it is."""
        if subscriber not in self.key_of:
            self.version += 1
            self.key_of[subscriber] = key
            self.by_key.setdefault(key, {})[subscriber] = None
        self.leaving.pop(subscriber, None)

    def remove(self, subscriber: str) -> None:
        """Strike a subscriber out; unknown ones are gone already."""
        key = self.key_of.pop(subscriber, None)
        self.leaving.pop(subscriber, None)
        if key is not None:
            self.version += 1
            del self.by_key[key][subscriber]
            if not self.by_key[key]:
                del self.by_key[key]

    def movable(self) -> dict[int, list[str]]:
        """Give the subscribers that may be moved, by subscription."""
        found: dict[int, list[str]] = {}
        for key, names in self.by_key.items():
            free = [name for name in names if name not in self.leaving]
            if free:
                found[key] = free
        return found

    def mark_leaving(self, subscribers: Iterable[str], session: str) -> None:
        """Mark subscribers as leaving."""
        for name in subscribers:
            self.leaving[name] = session

    def leaving_keys(self) -> set[int]:
        """Give the subscriptions of those who are leaving but still served."""
        return {self.key_of[name] for name in self.leaving if name in self.key_of}
