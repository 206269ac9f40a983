"""Ordinary topics and durable queues over MQTT, and the same ordinary topics with mosquitto."""
