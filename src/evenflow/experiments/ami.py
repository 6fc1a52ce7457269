"""Operators on metering units: the experiments of T. Kotsantis, Know your neighbor (Chalmers 2014), and ours."""

from __future__ import annotations

from evenflow.experiments.ami_chaos import CHAOS
from evenflow.experiments.ami_live import LIVE
from evenflow.experiments.ami_run import AMI
from evenflow.experiments.ami_scale import SCALE

EXPERIMENTS = (AMI, CHAOS, SCALE, LIVE)
