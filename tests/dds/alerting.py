"""A listener that publishes an alert per item, and what tests do with its nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from evenflow.dds.bus import CONTROL
from evenflow.dds.wire.codec import message_to_json
from evenflow.dds.wire.idl import Control
from evenflow.dds.wire.values import to_sample
from evenflow.slices.ledger import item_id
from evenflow.slices.messages import Item


@dataclass
class Reading:
    sensor: int
    temperature: float


@dataclass
class Alert:
    sensor: int
    node: str


class Alerts:
    """Publishes an alert per item."""

    def __init__(self, name):
        self.name = name
        self.seen = []

    def on_data(self, item, state):
        self.seen.append(item.id)
        self.publish("alerts", Alert(item.value["sensor"], self.name))
        return (state or 0) + 1

    def on_correlating_data(self, item):
        pass


def alerting(domain, tmp_path, name, **options):
    return domain.node(tmp_path, name, Alerts(name), Reading, {"alerts": Alert}, **options)


def write(domain, numbers, slices=4, publisher=7):
    for n in numbers:
        item = Item(item_id(publisher, n), n % slices, "readings", 0, 1.0, {"sensor": n, "temperature": 1.0})
        domain.inject("readings", to_sample(item, Reading).serialize())


def sensors(got):
    return Counter(item.value["sensor"] for item in got)


def control(to, sender, message):
    body = message if isinstance(message, str) else message_to_json(message)
    return CONTROL, Control(to, sender, body).serialize()
