"""Backends of the storage port. They keep bytes and know no rules; none knows another."""
