# SPDX-License-Identifier: Apache-2.0
"""Asks the kernel for the interface by which it sends. rtnetlink(7) also follows rules that depend on the source."""

from __future__ import annotations

import ipaddress
import itertools
import socket
import struct
from collections.abc import Sequence
from dataclasses import replace

from hipress.errors import TransportError
from hipress.network.choice import Host
from hipress.network.devices import Device

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ROUTE = struct.Struct("=BBBBBBBBI")  # family, bits of the destination, bits of the source, unused fields
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_NEW_ROUTE, _GET_ROUTE = 24, 26
_REQUEST = 1
_DESTINATION, _SOURCE, _OUTGOING = 1, 2, 4


def subnets_of(hosts: Sequence[Host]) -> list[str]:
    """The subnets of all hosts' devices, equal on all ranks."""
    return sorted({device.subnet for host in hosts for device in host.devices if device.subnet})


def led_to(device: Device, own: Host, hosts: Sequence[Host], subnets: Sequence[str]) -> int:
    """The subnets that the kernel reaches through a device of this host, from the device's address: one bit per subnet.

    It asks the kernel for one address of each subnet, the address of another host's device. Raises TransportError if
    the kernel does not answer.
    """
    if not device.address:
        return 0
    elsewhere: dict[str, str] = {}
    for each in itertools.chain.from_iterable(host.devices for host in hosts if host is not own):
        if each.subnet and each.ip != device.ip:
            elsewhere.setdefault(each.subnet, each.ip)
    index = socket.if_nametoindex(device.interface)
    return sum(
        1 << number
        for number, subnet in enumerate(subnets)
        if subnet in elsewhere and outgoing(device.ip, elsewhere[subnet]) == index
    )


def with_ways(device: Device, ways: int, subnets: Sequence[str]) -> Device:
    """The device, with the subnets that it leads to."""
    return replace(device, leads=frozenset(subnet for number, subnet in enumerate(subnets) if ways >> number & 1))


def outgoing(source: str, destination: str) -> int | None:
    """The index of the interface by which the kernel sends from one address to another; None: there is no route."""
    ends = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if ends[0].version != ends[1].version:
        return None
    family = socket.AF_INET if ends[0].version == 4 else socket.AF_INET6
    bits = ends[0].max_prefixlen
    body = _ROUTE.pack(family, bits, bits, 0, 0, 0, 0, 0, 0)
    for kind, end in ((_DESTINATION, ends[1]), (_SOURCE, ends[0])):
        body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(end.packed), kind) + end.packed
    request = _HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _REQUEST, 1, 0) + body
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as kernel:
            kernel.settimeout(5.0)
            kernel.sendto(request, (0, 0))
            answer = kernel.recv(16384)
    except OSError as error:
        raise TransportError(
            f"the kernel does not tell its routes ({error}); name the network devices yourself: UCX_NET_DEVICES=eth1"
        ) from error
    if _HEADER.unpack_from(answer)[1] != _NEW_ROUTE:
        return None
    at = _HEADER.size + _ROUTE.size
    while at + _ATTRIBUTE.size <= len(answer):
        length, kind = _ATTRIBUTE.unpack_from(answer, at)
        if kind == _OUTGOING:
            return int(struct.unpack_from("=I", answer, at + _ATTRIBUTE.size)[0])
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return None
