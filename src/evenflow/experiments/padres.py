"""The experiments with publish/subscribe brokers (Cheung 2006, chapter 5, and our own)."""

from __future__ import annotations

from evenflow.experiments.padres_chaos import CHAOS
from evenflow.experiments.padres_global import GLOBAL
from evenflow.experiments.padres_live import LIVE
from evenflow.experiments.padres_local import LOCAL
from evenflow.experiments.padres_micro import MICRO
from evenflow.experiments.padres_scale import SCALE

EXPERIMENTS = (LOCAL, GLOBAL, MICRO, CHAOS, LIVE, SCALE)
