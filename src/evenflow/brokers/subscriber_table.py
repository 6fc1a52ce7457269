"""The subscribers that a broker serves, and which of them are about to leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class SubscriberTable:
    """Subscribers by subscription number, in the order in which they joined."""

    by_key: dict[int, dict[str, None]] = field(default_factory=dict)
    key_of: dict[str, int] = field(default_factory=dict)
    leaving: dict[str, str] = field(default_factory=dict)  # subscriber -> session that moves it
    version: int = 0  # changes whenever a subscriber is added or removed

    def add(self, subscriber: str, key: int) -> None:
        """Add a subscriber; if it is already here, only its leaving mark is removed."""
        if subscriber not in self.key_of:
            self.version += 1
            self.key_of[subscriber] = key
            self.by_key.setdefault(key, {})[subscriber] = None
        self.leaving.pop(subscriber, None)

    def remove(self, subscriber: str) -> None:
        """Remove a subscriber; an unknown one is ignored."""
        key = self.key_of.pop(subscriber, None)
        self.leaving.pop(subscriber, None)
        if key is not None:
            self.version += 1
            del self.by_key[key][subscriber]
            if not self.by_key[key]:
                del self.by_key[key]

    def movable(self) -> dict[int, list[str]]:
        """Return the subscribers that may be moved, by subscription number."""
        free_by_key: dict[int, list[str]] = {}
        for key, names in self.by_key.items():
            free = [name for name in names if name not in self.leaving]
            if free:
                free_by_key[key] = free
        return free_by_key

    def mark_leaving(self, subscribers: Iterable[str], session: str) -> None:
        """Mark subscribers as leaving."""
        for name in subscribers:
            self.leaving[name] = session

    def leaving_keys(self) -> set[int]:
        """Return the subscription numbers of subscribers that are leaving but still served."""
        return {self.key_of[name] for name in self.leaving if name in self.key_of}
