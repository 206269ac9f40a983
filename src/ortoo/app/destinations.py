"""Where webhooks may lead.

Whoever may change a topic can make the server post to any address, and the server stands where its network trusts it: beside
databases, consoles and the metadata of a cloud. So what counts is the address that a name leads to at that moment, and that
address is then connected to; a name that leads elsewhere a moment later gains nothing.

Without a list, public addresses are good and nothing else. With one, only what it names: a network is good by itself, a name
leads where its owner wants it to, also to private addresses, but never to those of the machine's own link.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from ortoo.model.errors import ConfigError

from .resolver import Resolver

Address = IPv4Address | IPv6Address

_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_NAT64 = ip_network("64:ff9b::/96")
_LOOPBACK = ip_address("::1")
# Each has an address of IPv4 in it, or the way to a relay, and what becomes of that is decided elsewhere in the network: NAT64
# with a local prefix, Teredo, SIIT, and addresses "compatible" with IPv4.
_WRAPPERS = tuple(map(ip_network, ("64:ff9b:1::/48", "2001::/32", "::ffff:0:0:0/96", "::/96")))
# Neither is anybody's, although Python calls them global: relays of 6to4, and addresses for documents.
_NOBODYS = tuple(map(ip_network, ("192.88.99.0/24", "3fff::/20")))
# Where clouds tell a machine its credentials, also where that is no link-local address.
_METADATA = frozenset(
    map(ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"))
)


class DestinationError(Exception):
    """A webhook may not lead there; the message says why, with the address, and is for the log."""


class Destinations:
    def __init__(self, allow: Sequence[str] = (), resolver: Resolver | None = None) -> None:
        """ConfigError when one of them is no name, address or network."""
        self._resolver = resolver or Resolver()
        self._networks = []
        self._names: set[str] = set()
        for entry in allow:
            try:
                self._networks.append(ip_network(entry))
            except ValueError:
                self._names.add(_checked_name(entry))
        self._is_listed = bool(allow)

    async def addresses(self, namespace: str, host: str, port: int) -> list[str]:
        """What the host leads to now, as far as that is allowed. DestinationError when nothing of it is."""
        if _is_address(host):
            given = [host]
        elif self._is_listed and not self._networks and not self._names_host(_canonical(host)):
            raise DestinationError(f"{host} is not in webhooks.allow")  # wherever it leads
        else:
            given = await self._resolver.addresses(namespace, host, port)
        good = [address for address in given if self.permits(host, address)]
        if not good:
            raise DestinationError(f"{host} leads to {', '.join(given)}, which webhooks.allow does not allow")
        return good

    def permits(self, host: str, address: str) -> bool:
        plain = _plain(ip_address(address))
        if any(plain in network for network in self._networks):
            return True
        if self._is_listed:
            return self._names_host(_canonical(host)) and not _is_forbidden(plain)
        return _is_public(plain)

    def _names_host(self, host: str) -> bool:
        return host in self._names or any(
            name.startswith("*.") and host.endswith(name[1:]) and len(host) > len(name) - 1 for name in self._names
        )


def _canonical(host: str) -> str:
    return host.lower().removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def anywhere() -> Destinations:
    """For a queue in the program that sets its webhooks itself."""
    return Destinations(["0.0.0.0/0", "::/0"])


def _checked_name(entry: str) -> str:
    name = _canonical(entry)
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"webhooks.allow takes host names, *.NAMES, addresses and networks such as 10.1.0.0/16, not {entry!r}"
        )
    return name


def _plain(address: Address) -> Address:
    """The IPv4 address that one of IPv6 stands for, where it does: that is where it leads."""
    if not isinstance(address, IPv6Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or IPv6Address(int(address))  # without the zone


def _is_forbidden(address: Address) -> bool:
    """Not reached by a name, only where the list has the address itself."""
    never = address.is_link_local or address.is_multicast or address.is_unspecified
    is_wrapped = address != _LOOPBACK and any(address in network for network in _WRAPPERS)
    return never or is_wrapped or address in _METADATA


def _is_public(address: Address) -> bool:
    is_special = _is_forbidden(address) or address.is_loopback or address.is_private or address.is_reserved
    if isinstance(address, IPv6Address):
        is_special = is_special or address.is_site_local
    return address.is_global and not is_special and all(address not in network for network in _NOBODYS)
