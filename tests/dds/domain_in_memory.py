"""A DDS domain in memory: the real processes on a bus whose samples are the octets that Cyclone would carry.

Time stands still until ``pass_time`` moves it. ``on_wire`` has every sample, and ``inject`` adds one.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

from evenflow.dds import balancer_process, node_process, plain, rows, writers
from evenflow.dds.application import Application
from evenflow.dds.wire.incoming import Incoming
from evenflow.slices.algorithm import Planned
from evenflow.slices.settings import BalancerSettings, NodeSettings
from evenflow.slices.topics import Topic

SLICES = 4


class Writer:
    """What the processes ask of a writer."""

    def __init__(self, bus, topic):
        self.bus, self.topic, self._ref = bus, topic, 0

    def get_matched_subscriptions(self):
        return [r for r in self.bus.net.readers if r.topic == self.topic and self.bus.net.connected]

    def _wait_for_acks(self, ref, nanoseconds):
        return 0 if self.bus.net.receiving else -10  # DDS_RETCODE_TIMEOUT


class Reader:
    def __init__(self, net, topic):
        self.net, self.topic, self.waiting = net, topic, deque()

    def get_matched_publications(self):
        return [1, 2]


class Bus:
    """Takes the place of the bus on Cyclone."""

    def __init__(self, net):
        self.net = net
        self.told = []
        self.incoming = Incoming(tell=self.told.append)
        self.participant = None

    def writer(self, name, kind, owner="", qos=None):
        return Writer(self, name)

    def open(self, name, kind, make_filter=None):
        reader = Reader(self.net, name)
        self.net.readers.append(reader)
        return reader, None

    def close(self, reader):
        self.net.readers.remove(reader)

    def wait(self, seconds):
        pass

    def write(self, writer, sample):
        if writer.topic in self.net.full:
            return False
        self.net.inject(writer.topic, sample.serialize())
        return True

    def take(self, reader, topic, read):
        found = []
        while reader.waiting:
            found.append(reader.waiting.popleft())
        return self.incoming.admit(topic, found, read)


class Publications:
    def __init__(self, *arguments):
        pass

    def check(self):
        pass


class Domain:
    def __init__(self, monkeypatch):
        self.readers = []
        self.on_wire = []  # every sample: its topic and octets
        self.full = set()  # topics whose readers are full
        self.connected = True  # whether writers have found readers
        self.receiving = True  # whether readers say that they have what was written
        self.now = 1000.0
        self.processes = []
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(os, "fdatasync", lambda handle: None)
        for module in (balancer_process, node_process, writers, plain, rows):
            monkeypatch.setattr(module, "Bus", lambda number: Bus(self))
        for module in (plain, rows):
            monkeypatch.setattr(module, "Publications", Publications)

    def inject(self, topic, data):
        self.on_wire.append((topic, data))
        for reader in self.readers:
            if reader.topic == topic:
                reader.waiting.append(data)

    def pass_time(self, seconds, step=0.02):
        end = self.now + seconds
        while self.now < end:
            self.now += step
            for process in list(self.processes):
                process.turn()

    def begin(self, running):
        running.process.start()
        self.processes.append(running.process)
        return running

    def stop(self, running):
        """End a process properly."""
        self.processes.remove(running.process)
        self._unplug(running)
        running.process.end()

    def kill(self, running):
        """End a process where it is: nothing more is written, to the domain or to a journal."""
        self.processes.remove(running.process)
        self._unplug(running)
        _close(running.process)

    def close(self):
        """Let go of the files of what is still running."""
        for process in self.processes:
            if hasattr(process, "cells"):
                _close(process)

    def _unplug(self, running):
        mine = getattr(running, "readers", None)
        ports = [running.port._control, running.port._caches] if hasattr(running, "port") else []
        readers = ports + ([o.reader for o in mine._live] + [o.reader for _, o in mine._closing] if mine else [])
        self.readers = [r for r in self.readers if not any(r is each for each in readers)]

    def balancer(self, directory: Path, slices=SLICES):
        settings = BalancerSettings(slices=slices, resend_s=1.0, timeout_s=5.0)
        algorithm = Planned(_even_counts(), name="even_counts")
        return self.begin(
            balancer_process.BalancerProcess(algorithm, settings, 0.5, 0, directory / "balancer", keep=False)
        )

    def node(self, directory: Path, name, listener, kind, results=None, *, slices=SLICES, balance=True, **more):
        settings = NodeSettings(
            slices=slices, speed=20000.0, commit_s=0.02, monitor_s=0.5, overlap_s=0.1, drain_s=0.1, resend_s=1.0, **more
        )
        application = Application(Topic("readings", listener, balance), kind, results or {}, listener)
        return self.begin(node_process.NodeProcess(name, application, settings, 0, directory / name, keep=False))


def _close(process):
    for cell in process.cells:
        if cell.journal is not None:
            cell.journal.close()


def _even_counts():
    from evenflow.policies import named

    return named("even_counts")
