"""A listener that publishes: the application of a test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Heat:
    sensor: int
    temperature: float


@dataclass
class Alarm:
    sensor: int
    count: int


class Alarms:
    topic = "heat"
    type = Heat
    filter = "temperature > %0"
    parameters = ("80",)
    results = {"alarms": Alarm}  # noqa: RUF012

    def on_data(self, item, state):
        count = (state or 0) + 1
        self.publish("alarms", Alarm(item.value["sensor"], count))
        return count

    def on_correlating_data(self, item):
        pass


class Everywhere:
    topic = "news"
    type = Heat
    balance = False
    results = {"echoes": Alarm}  # noqa: RUF012

    def on_data(self, item, state):
        self.publish("echoes", Alarm(item.value["sensor"], 1))

    def on_correlating_data(self, item):
        pass


class NoTopic:
    def on_data(self, item, state):
        pass

    def on_correlating_data(self, item):
        pass
