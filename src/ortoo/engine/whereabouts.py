"""Where consumers are: the groups that each has joined, and those that it has leases of. So one that leaves is found without
looking at what others have, of which there may be very much."""

from __future__ import annotations

from collections.abc import Collection

from ortoo.model.names import GroupId, LeaseId, TopicId

Place = tuple[TopicId, GroupId]
Leases = dict[LeaseId, None]

_NOWHERE: dict[Place, Leases] = {}  # never changed


class Whereabouts:
    """By consumer and namespace: tenants may use the same names."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[str, dict[str, dict[Place, Leases]]] = {}

    def add(self, consumer: str, namespace: str, place: Place) -> Leases:
        """What it has there, to be added to."""
        return self._places.setdefault(consumer, {}).setdefault(namespace, {}).setdefault(place, {})

    def remove(self, consumer: str, namespace: str, place: Place) -> None:
        places = self.places(consumer, namespace)
        if place not in places:
            return
        del places[place]
        if not places:
            del self._places[consumer][namespace]
            if not self._places[consumer]:
                del self._places[consumer]

    def namespaces(self, consumer: str) -> Collection[str]:
        return self._places.get(consumer, {}).keys()

    def places(self, consumer: str, namespace: str) -> dict[Place, Leases]:
        return self._places.get(consumer, {}).get(namespace, _NOWHERE)


class LeaseGroups(dict[LeaseId, tuple[Place, str, str]]):
    """Which group each lease is of, and its namespace and consumer."""

    __slots__ = ("whereabouts",)

    def __init__(self) -> None:
        super().__init__()
        self.whereabouts = Whereabouts()

    def add(self, lease: LeaseId, place: Place, namespace: str, consumer: str) -> None:
        self[lease] = (place, namespace, consumer)
        self.whereabouts.add(consumer, namespace, place)[lease] = None

    def end(self, lease: LeaseId) -> None:
        found = self.pop(lease, None)
        if found is None:
            return
        place, namespace, consumer = found
        leases = self.whereabouts.places(consumer, namespace)[place]
        del leases[lease]
        if not leases:
            self.whereabouts.remove(consumer, namespace, place)
