# SPDX-License-Identifier: Apache-2.0
"""The exchange by which all ranks make the same choice of devices."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from hipress._library import load_core
from hipress.errors import InvalidArgument, TransportError
from hipress.network.choice import Host, Network, contenders, decide, networks
from hipress.network.devices import LOOPBACK, Device, list_text, local_devices, rate_text
from hipress.network.rates import Unconnected, measure
from hipress.network.routes import led_to, subnets_of, with_ways
from hipress.network.wanted import EXPECTED, KINDS, Wanted, describe, matches

AllGather = Callable[[str, bytes], Sequence[bytes]]
#: UCX' own variable; if the user has set it, HiPress chooses no devices.
_UCX_DEVICES = "UCX_NET_DEVICES"
#: Number of hosts that an error describes.
_DESCRIBED = 8


@dataclass(frozen=True)
class Chosen:
    """devices: the devices for UCX; "": the device of the control connection. summary: a log line. advice: a text that
    is added to an error of UCX.
    """

    devices: str
    summary: str
    advice: str = ""

    def explained(self, error: TransportError) -> TransportError:
        """The error of a network that does not connect, with its devices and advice."""
        return TransportError(f"{error}. {self.advice}") if self.advice else error


def agree(allgather: AllGather, rank: int, wanted: str, met_at: str) -> Chosen:
    """The devices that this rank uses. All ranks call it.

    Arguments:
        allgather: returns the values of all ranks for a key, in rank order.
        wanted: the value of HIPRESS_NET or `network`; it may differ between ranks.
        met_at: this rank's own address of its connection to rank 0.

    Raises on all ranks: InvalidArgument if no rank has a device of that name, or if a rank has no allowed device;
    TransportError if no device leads to all ranks, or if a network does not connect.
    """
    members = [json.loads(each) for each in allgather("network.hosts", json.dumps(_introduce(wanted)).encode())]
    _refuse_problems(members)
    if len({member["host"] for member in members}) == 1:
        return Chosen("", f"gradients take shared memory: all {len(members)} ranks are on one host")
    if all(member["ucx"] for member in members):
        return Chosen("", f"gradients take {_UCX_DEVICES}={members[0]['ucx']}, the environment's choice")
    return _among_hosts(allgather, rank, Wanted.parse(wanted), met_at, members)


def _introduce(text: str) -> dict[str, Any]:
    """The first message of a rank: its host, the elements of its setting with a device here, and its problem."""
    namespace = os.stat("/proc/self/ns/net")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    host = hashlib.sha256(f"{boot} {namespace.st_dev}:{namespace.st_ino}".encode()).hexdigest()[:16]
    known: dict[str, Any] = {"host": host, "name": socket.gethostname(), "ucx": os.environ.get(_UCX_DEVICES, "")}
    if not text.strip():
        return known
    try:
        wanted = Wanted.parse(text)
        devices = local_devices()
        known["elements"] = {element: any(matches(element, each) for each in devices) for element in wanted.elements}
        known["there"] = f"{list_text(devices)} and the wish {describe(text)}"
        # A job on one host may use loopback.
        if not any(wanted.allows(each) and each.problem in ("", LOOPBACK) for each in devices):
            raise InvalidArgument(
                f"{describe(text)} names no device of this host that works; there are {list_text(devices)}"
            )
    except InvalidArgument as error:
        known["problem"] = str(error)
    return known


def _refuse_problems(members: Sequence[dict[str, Any]]) -> None:
    for number, member in enumerate(members):
        if "problem" in member:
            raise InvalidArgument(f"rank {number} ({member['name']}): {member['problem']}")
    for number, member in enumerate(members):
        for element in member.get("elements", ()):
            # The setting "rdma,tcp" is valid on a host without RDMA.
            if element.lower() not in KINDS and not any(other.get("elements", {}).get(element) for other in members):
                raise InvalidArgument(
                    f"rank {number} ({member['name']}): no rank has the {element!r} of its HIPRESS_NET or network=; "
                    f"there are {member['there']}. {EXPECTED[0].upper()}{EXPECTED[1:]}"
                )


def _among_hosts(
    allgather: AllGather,
    rank: int,
    wanted: Wanted,
    met_at: str,
    members: Sequence[dict[str, Any]],
) -> Chosen:
    own_devices = local_devices(load_core().ucx_info()["transports"])
    allowed = [device for device in own_devices if not device.problem and wanted.allows(device)]
    values = [json.loads(each) for each in allgather("network.devices", _packed(allowed, met_at))]
    hosts = _hosts(members, values)
    own = next(number for number, host in enumerate(hosts) if members[host.rank]["host"] == members[rank]["host"])

    subnets = subnets_of(hosts)
    speaks = hosts[own].rank == rank
    interfaces = {device.name: device.interface for device in allowed}
    # Every rank gets the numbers of all hosts, so they are in hexadecimal, which is short.
    ways = {
        each.name: f"{led_to(replace(each, interface=interfaces[each.name]), hosts[own], hosts, subnets):x}"
        for each in (hosts[own].devices if speaks else ())
    }
    told = [json.loads(each) for each in allgather("network.ways", json.dumps(ways).encode())]
    hosts = [
        replace(
            host, devices=tuple(with_ways(each, int(told[host.rank][each.name], 16), subnets) for each in host.devices)
        )
        for host in hosts
    ]
    found = networks(hosts)
    if not found:
        _refuse_hosts(hosts, members)
    used, rates = _best(allgather, hosts, own if speaks else None, found)
    return _describe(own_devices, hosts, own, found, used, rates, wanted)


def _packed(devices: Sequence[Device], met_at: str) -> bytes:
    """The devices as a short text, because every rank gets the devices of all ranks."""
    told = [[each.name, each.kind, each.address, each.fabric, each.rate] for each in devices]
    return json.dumps({"devices": told, "met_at": met_at.removeprefix("::ffff:")}, separators=(",", ":")).encode()


def _hosts(members: Sequence[dict[str, Any]], values: Sequence[dict[str, Any]]) -> list[Host]:
    """The hosts in the order of their first ranks, each with the devices that all its ranks may use."""
    ranks: dict[str, list[int]] = {}
    for number, member in enumerate(members):
        ranks.setdefault(member["host"], []).append(number)
    hosts = []
    for first, *others in ranks.values():
        common = [
            Device(*told)
            for told in values[first]["devices"]
            if all(told in values[other]["devices"] for other in others)
        ]
        hosts.append(Host(members[first]["name"], first, tuple(common), values[first]["met_at"]))
    return hosts


def _best(
    allgather: AllGather, hosts: Sequence[Host], own: int | None, found: Sequence[Network]
) -> tuple[list[Network], dict[int, float]]:
    """The networks to use, and the measured rates of `found`, by number."""
    likely = contenders(found)
    if len(likely) == 1 or likely[0].kind == "rdma":
        return likely, {}
    numbers = [found.index(network) for network in likely]
    results = dict(zip(numbers, measure(allgather, hosts, own, likely), strict=True))
    measured = {number: result for number, result in results.items() if not isinstance(result, Unconnected)}
    for number, result in results.items():
        met = any(device.ip == host.met_at for device, host in zip(found[number].devices, hosts, strict=True))
        # On the network of the control connection, a firewall may allow only the control connection itself.
        if isinstance(result, Unconnected) and not (met and measured):
            raise TransportError(f"{result.reason}. {_blocked(found, number)}")
    return [found[decide(hosts, found, measured)]], measured


def _blocked(found: Sequence[Network], number: int) -> str:
    others = [network.devices[0].name for other, network in enumerate(found) if other != number]
    another = f", or leave {found[number].devices[0].name} out: HIPRESS_NET={','.join(others)}" if others else ""
    return f"Open the firewall between the hosts for all ports (or for the ports of UCX_TCP_PORT_RANGE){another}"


def _refuse_hosts(hosts: Sequence[Host], members: Sequence[dict[str, Any]]) -> NoReturn:
    """Raises an error with the devices: all devices of a host with a setting, else the devices that UCX can use."""
    described = [
        f"rank {host.rank} ({host.name}) has {members[host.rank].get('there') or list_text(host.devices)}"
        for host in hosts[:_DESCRIBED]
    ]
    more = f". And so on, of {len(hosts)} hosts" if len(hosts) > _DESCRIBED else ""
    message = f"no network device leads from each host to all others. {'. '.join(described)}{more}. "
    if any("elements" in member for member in members):
        raise InvalidArgument(f"{message}HIPRESS_NET or network= may allow too little: {EXPECTED}")
    raise TransportError(
        f"{message}`hipress doctor` shows what a host cannot use, and why. Give the hosts addresses in one subnet, or "
        f"routes, or set UCX_NET_DEVICES, which is not checked"
    )


def _describe(
    own_devices: Sequence[Device],
    hosts: Sequence[Host],
    own: int,
    found: Sequence[Network],
    used: Sequence[Network],
    measured: dict[int, float],
    wanted: Wanted,
) -> Chosen:
    def text(network: Network) -> str:
        number = found.index(network)
        device = network.devices[own]
        said = [device.kind, device.address or device.fabric, rate_text(network.rate)]
        if number in measured:
            said.append(f"{rate_text(measured[number])} measured")
        elsewhere = sorted({each.name for each in network.devices} - {device.name})
        if elsewhere:
            said.append(f"on other hosts {' '.join(elsewhere[:_DESCRIBED])}")
        return f"{device.name} ({', '.join(said)})"

    others = [network for network in found if network not in used]
    summary = f"gradients take {', '.join(map(text, used))}"
    if others:
        summary += f"; not {', '.join(map(text, others))}"
    for device in own_devices:
        if device.kind == "rdma" and device.problem and not device.problem.startswith("is "):
            summary += f"; {device.name} ({rate_text(device.rate)}) cannot be used: {device.problem}"
    if os.environ.get(_UCX_DEVICES):
        summary = f"gradients take {_UCX_DEVICES}={os.environ[_UCX_DEVICES]}, the environment's choice"
    else:
        summary += f" (HIPRESS_NET={wanted.text})" if wanted.elements else "; HIPRESS_NET chooses"
    names = list(dict.fromkeys(network.devices[own].name for network in used))
    another = ",".join(dict.fromkeys(network.devices[own].name for network in others))
    advice = f"On this rank ({hosts[own].name}) gradients take {', '.join(map(text, used))}. "
    if another:
        advice += f"HIPRESS_NET={another} on all ranks takes another network"
    elif wanted.elements:
        advice += f"HIPRESS_NET={wanted.text} allows no other; without it every network is considered"
    else:
        advice += "No other network that HIPRESS_NET could name joins the hosts"
    return Chosen(",".join(names), summary, advice)
