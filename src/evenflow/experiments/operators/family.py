"""Operators on metering units: the experiments of T. Kotsantis, Know your neighbor (Chalmers 2014), and ours."""

from __future__ import annotations

from evenflow.experiments.operators.ami import AMI
from evenflow.experiments.operators.chaos import CHAOS
from evenflow.experiments.operators.live import LIVE
from evenflow.experiments.operators.scale import SCALE

EXPERIMENTS = (AMI, CHAOS, SCALE, LIVE)
