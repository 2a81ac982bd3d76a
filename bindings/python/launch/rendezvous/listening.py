# SPDX-License-Identifier: Apache-2.0
"""Makes the socket on which rank 0 waits for the other ranks: bound to one interface and a free port."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Mapping

from hipress.errors import InvalidArgument, TransportError

#: The variable with the name or address of the interface that joins the hosts, if the launcher does not give it.
INTERFACE = "HIPRESS_INTERFACE"
_SIOCGIFADDR = 0x8915
_BACKLOG = 1024


def on_loopback() -> socket.socket:
    """A socket on loopback, for a job on one host."""
    return socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)


def towards(host: str, named: str, port: int = 0) -> socket.socket:
    """A socket on this host's interface with the name or address `host`, or else on the interface that leads to `host`.
    `named`: the variable that has `host`, for errors.

    Refuses a host name that means loopback on this host (some systems' /etc/hosts does so for the host's own name): the
    other ranks would try to connect until the deadline. It accepts a literal loopback address, for tests with two
    agents on one machine.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise TransportError(f"{named}={host} cannot be resolved on rank 0's host: {error}") from error
    listener = _on_any([str(sockaddr[0]) for *_, sockaddr in found], port)
    try:
        listener = listener or _bind(_source_address(str(found[0][4][0])), port)
    except OSError as error:
        raise TransportError(f"rank 0 cannot listen on an interface that leads to {named}={host}: {error}") from error
    address = str(listener.getsockname()[0])
    if _is_loopback(address) and host not in ("localhost", address):
        listener.close()
        raise InvalidArgument(
            f"{named}={host!r} is {address} on rank 0's host, which the job's other hosts cannot reach: expected "
            f"an address or name of an interface that they reach."
        )
    return listener


def outward(environ: Mapping[str, str]) -> socket.socket:
    """A socket on the interface in HIPRESS_INTERFACE, else on that of the default route, else on the first one that is
    not loopback. It is for launchers that do not tell which network joins their hosts."""
    named = environ.get(INTERFACE)
    try:
        return _bind(_named_address(named) if named else _outward_address())
    except OSError as error:
        what = f"{INTERFACE}={named}" if named else "an interface that other hosts reach"
        raise TransportError(
            f"rank 0 cannot listen on {what}: {error}; set {INTERFACE} to the name or address of one that they reach"
        ) from error


def _named_address(named: str) -> str:
    try:
        return _interface_address(named)
    except OSError:
        if any(named == name for _, name in socket.if_nameindex()):
            raise
    return named


def _outward_address() -> str:
    # No host has these addresses (RFC 5737, RFC 3849), so the kernel uses the default route for them.
    for address in ("192.0.2.1", "2001:db8::1"):
        try:
            return _source_address(address)
        except OSError:
            continue
    for _, name in socket.if_nameindex():
        try:
            address = _interface_address(name)
        except OSError:
            continue
        if not _is_loopback(address):
            return address
    raise OSError("this host has none but loopback")


def _interface_address(name: str) -> str:
    """The interface's IPv4 address. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", os.fsencode(name)[:15])
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24])


def _source_address(destination: str) -> str:
    """This host's address on the way to `destination`. Raises OSError."""
    family = socket.AF_INET6 if ":" in destination else socket.AF_INET
    # To connect a datagram socket sends nothing; it only makes the kernel choose the interface.
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((destination, 9))
        return str(probe.getsockname()[0])


def _on_any(addresses: list[str], port: int) -> socket.socket | None:
    for address in addresses:
        try:
            return _bind(address, port)
        except OSError:
            continue
    return None


def _bind(address: str, port: int = 0) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
