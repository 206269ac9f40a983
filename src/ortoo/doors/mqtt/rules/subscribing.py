"""Subscriptions of a session: asked for, granted by the door, kept, and given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ortoo.doors.mqtt.wire.codes import FAILURE, SUBACK_CODES, V5, Code, MqttError, protocol_error
from ortoo.doors.mqtt.wire.encoding import encode
from ortoo.doors.mqtt.wire.packets import Suback, Subscribe, Unsuback, Unsubscribe

from . import actions as a
from .output import Output
from .state import SessionState, Subscribed
from .terms import Agreement, Terms

_ASKED_MAX: Final = 16


class Subscribing:
    def __init__(self, state: SessionState, agreement: Agreement, terms: Terms, output: Output) -> None:
        self._state = state
        self._version = agreement.version
        self._bytes_max = agreement.packet_bytes_max
        self._terms = terms
        self._output = output
        self.asked: dict[int, tuple[Subscribed | None, ...]] = {}  # by packet identifier; None where there is no room
        self._later: list[Subscribe | Unsubscribe] = []  # came behind these, from the first UNSUBSCRIBE on

    @property
    def is_busy(self) -> bool:
        """Too many wait for the door."""
        return len(self.asked) + len(self._later) >= _ASKED_MAX

    def subscribe(self, packet: Subscribe) -> None:
        if self._later:
            self._later.append(packet)
            return
        if packet.packet_id in self.asked:
            raise protocol_error(f"the packet identifier {packet.packet_id} is in use")
        ids = packet.properties.subscription_ids
        number = ids[0] if ids else None
        known, levels, size = len(self._state.subscriptions), self._state.levels, self._state.filter_bytes
        asked: list[Subscribed | None] = []
        for options in packet.subscriptions:
            if options.filter not in self._state.subscriptions:
                known += 1
                levels += options.filter.count("/") + 1
            user = packet.properties.user if "$queue/" in options.filter else ()
            size += len(options.filter) + sum(len(name) + len(value) for name, value in user)
            is_too_much = known > self._terms.subscriptions_max or levels > self._terms.levels_max
            is_too_much = is_too_much or size > self._terms.filter_bytes_max
            asked.append(None if is_too_much else Subscribed(options, number, user))
        self.asked[packet.packet_id] = tuple(asked)
        granted = tuple(one for one in asked if one is not None)
        if granted:
            self._output.act(a.Subscribe(packet.packet_id, granted))
        else:
            self.subscribed(packet.packet_id, ())

    def subscribed(self, packet_id: int, reasons: Sequence[int]) -> None:
        """One reason for each that the door was asked for."""
        asked = self.asked.pop(packet_id)
        answers, given = [], iter(reasons)
        retained: list[Subscribed] = []
        for one in asked:
            reason = Code.QUOTA_EXCEEDED if one is None else next(given)
            answers.append(_told(reason, self._version))
            if one is None or reason >= FAILURE:
                continue
            handling = one.options.retain_handling
            is_new = one.options.filter not in self._state.subscriptions
            granted = Subscribed(msgspec.structs.replace(one.options, qos=int(reason)), one.id, one.user)
            self._state.subscriptions[one.options.filter] = granted
            if not one.options.filter.startswith("$share/") and (handling == 0 or (handling == 1 and is_new)):
                retained.append(granted)
        self._send(Suback(packet_id, tuple(answers)))
        for granted in retained:
            self._output.act(a.SendRetained(granted))
        if not self.asked:
            later, self._later = self._later, []
            for packet in later:
                self.unsubscribe(packet) if isinstance(packet, Unsubscribe) else self.subscribe(packet)

    def unsubscribe(self, packet: Unsubscribe) -> None:
        if self.asked or self._later:  # it may be about one of these
            self._later.append(packet)
            return
        reasons, gone = [], []
        for text in packet.filters:
            was_there = self._state.subscriptions.pop(text, None) is not None
            reasons.append(Code.SUCCESS if was_there else Code.NO_SUBSCRIPTION_EXISTED)
            if was_there:
                gone.append(text)
        if gone:
            self._output.act(a.Unsubscribe(tuple(gone)))
        self._send(Unsuback(packet.packet_id, tuple(reasons) if self._version == V5 else ()))

    def _send(self, answer: Suback | Unsuback) -> None:
        data = encode(answer, self._version)
        if self._bytes_max is not None and len(data) > self._bytes_max:
            raise MqttError(Code.PACKET_TOO_LARGE, "the answer is larger than the client takes: ask for fewer filters")
        self._output.send_after_save(data)


def _told(reason: int, version: int) -> int:
    if version != V5:
        return min(reason, FAILURE)
    return reason if reason in SUBACK_CODES else Code.UNSPECIFIED
