"""The experiments with publish/subscribe brokers (Cheung 2006, chapter 5, and our own)."""

from __future__ import annotations

from evenflow.experiments.brokers.chaos import CHAOS
from evenflow.experiments.brokers.live import LIVE
from evenflow.experiments.brokers.micro import MICRO
from evenflow.experiments.brokers.padres_global import GLOBAL
from evenflow.experiments.brokers.padres_local import LOCAL
from evenflow.experiments.brokers.scale import SCALE

EXPERIMENTS = (LOCAL, GLOBAL, MICRO, CHAOS, LIVE, SCALE)
