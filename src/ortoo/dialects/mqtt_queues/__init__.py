"""The admin API of MQTT durable queues: queues, their settings, figures, consumers and dead letters."""

from __future__ import annotations

from .table import MQTT_QUEUES

__all__ = ["MQTT_QUEUES"]
