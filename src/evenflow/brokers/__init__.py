"""Publish/subscribe brokers that spread their subscribers among themselves (Cheung 2006); call it to run them on Spark."""

from __future__ import annotations

from evenflow.door import open_door

open_door(__name__, "evenflow.spark.brokers.plane:brokers")
