"""The transfer part of a unit: what it sends and saves as operators leave and arrive, for every protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from evenflow.actor import Note, Save, Send
from evenflow.operators.custody import Custody, Key
from evenflow.operators.messages import DemandTransferRequest, OfferTransferReply, Receipt, Ship, Withdrawn
from evenflow.operators.session import Action as Step
from evenflow.operators.session import Event as Happened
from evenflow.operators.transfers import Transfer


class Runs(NamedTuple):
    """A unit's command: these operators run here from now on."""

    ops: tuple[int, ...]


class Stops(NamedTuple):
    """A unit's command: these operators no longer run here."""

    ops: tuple[int, ...]


class Agrees(NamedTuple):
    """A unit's command: it has just agreed to take these operators, and their memory counts here."""

    ops: tuple[int, ...]
    giver: str


class Carrier:
    """The part of a unit that gives and takes operators.

    Parameters
    ----------
    unit, custody
        Its name, and the record of its operators.
    """

    def __init__(self, unit: str, custody: Custody) -> None:
        self.unit = unit
        self.custody = custody
        self._out: list[Any] = []

    def memory(self) -> float:
        """Return the memory in use, in per cent."""
        return self.custody.memory()

    def _send(self, to: str, message: Any) -> None:
        self._out.append(Send(to, message))

    def _save(self) -> None:
        self._out.append(Save(self.custody.durable()))

    # -- transfers ------------------------------------------------------------------------------

    def _load(self, giver: str, transfers: Iterable[Transfer]) -> None:
        new = self.custody.load(op for t in transfers for op in t.ops)
        if new:
            self._out += [Runs(tuple(new)), Agrees(tuple(new), giver)]

    def _unload(self, ops: Iterable[int]) -> None:
        gone = self.custody.unload(ops)
        if gone:
            self._out.append(Stops(tuple(gone)))

    def _expect(self, key: Key, transfers: list[Transfer], now: float, *, offered: bool) -> None:
        self.custody.expect(key, transfers, now, offered=offered)
        self._save()
        self._out.append(Agrees(self.custody.taking[key].ops, key[1]))
        why = "offered by the giver" if offered else "asked for by the taker"
        self._out.append(self._session(key, "deploy", now, giver=key[1], taker=self.unit, after=self.memory(), why=why))
        self._accept(key)

    def _accept(self, key: Key) -> None:
        parcel = self.custody.taking[key]
        kind = OfferTransferReply if parcel.offered else DemandTransferRequest
        self._send(key[1], kind(key[0], parcel.transfers))

    def _giver(self, key: Key, event: Happened, now: float, kept: Iterable[Transfer] = ()) -> None:
        action = self.custody.on_giver(key, event, now, kept)
        if action is Step.WITHDRAW:
            self._send(key[1], Withdrawn(key[0]))
        elif action is Step.SHIP:
            self._save()
            ops = self.custody.giving[key].ops
            self._out.append(Stops(ops))
            after = self.memory() - self.custody.size(ops)  # until the receipt arrives they count here too
            self._out.append(self._session(key, "ship", now, giver=self.unit, taker=key[1], after=after))
            self._send(key[1], Ship(key[0], ops, {}))
        elif action is Step.SHIP_AGAIN:
            self._send(key[1], Ship(key[0], self.custody.giving[key].ops, {}))
        elif action is Step.FORGET:
            self._save()

    def _taker(self, key: Key, event: Happened, now: float, ops: tuple[int, ...] = ()) -> None:
        parcel = self.custody.taking.get(key)
        action = self.custody.on_taker(key, event, now, ops)
        if action is Step.ACCEPT_AGAIN:
            self._accept(key)
        elif action is Step.UNDEPLOY:
            self._save()
            assert parcel is not None
            self._out.append(self._session(key, "rolled back", now, key[1], self.unit, parcel.ops))
        elif action is Step.INSTALL:
            self._save()
            self._out.append(Runs(ops))
            self._out.append(self._session(key, "done", now, key[1], self.unit, ops))
            self._send(key[1], Receipt(key[0]))
        elif action is Step.RECEIPT_AGAIN:
            self._send(key[1], Receipt(key[0]))

    def _session(
        self,
        key: Key,
        step: str,
        now: float,
        giver: str,
        taker: str,
        ops: tuple[int, ...] | None = None,
        *,
        after: float | None = None,
        why: str = "",
    ) -> Note:
        """Return the trace record of a step; ``after`` is this unit's expected memory afterwards, in per cent."""
        if ops is None:
            ops = (self.custody.taking if taker == self.unit else self.custody.giving)[key].ops
        name = "/".join(map(str, (*key[0], giver, taker)))
        about: dict[str, Any] = {"session": name, "step": step, "giver": giver, "taker": taker, "units": ops}
        if after is not None:
            about["expects"] = {self.unit: after / 100.0}
        return Note({"kind": "session", "at": now, **about, **({"why": why} if why else {})})

    def _on_ship(self, sender: str, message: Ship, now: float) -> None:
        self._taker((message.talk, sender), Happened.SHIPPED, now, message.ops)

    def _on_receipt(self, sender: str, message: Receipt, now: float) -> None:
        self._giver((message.talk, sender), Happened.RECEIVED, now)

    def _on_withdrawn(self, sender: str, message: Withdrawn, now: float) -> None:
        self._taker((message.talk, sender), Happened.WITHDRAWN, now)
