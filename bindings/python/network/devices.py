# SPDX-License-Identifier: Apache-2.0
"""The network devices of this host with their names in UCX, and the reasons why some cannot be used."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from hipress._library import load_core

Kind = Literal["rdma", "tcp"]
#: An interface: name, problem (empty: none), whether it is loopback, addresses with prefix lengths.
Interface = tuple[str, str, bool, Sequence[str]]

LOOPBACK = "is loopback"
NO_RDMA = "this UCX was built without RDMA"
_ACTIVE = "ACTIVE"


@dataclass(frozen=True)
class Device:
    """One network device of one host.

    name: the name in UCX_NET_DEVICES: "eth1"; for RDMA with the port: "mlx5_0:1".
    address: the address that UCX uses, with its prefix length: "10.0.0.1/24". InfiniBand has none.
    fabric: the prefix of the subnet of an InfiniBand port.
    rate: the driver's rate in Mbit/s; None: unknown.
    problem: the reason why it cannot carry gradients to other hosts; "": it can.
    interface: the kernel's interface of the device; unknown for other hosts.
    leads: the job's subnets that the kernel reaches through this device.
    """

    name: str
    kind: Kind
    address: str = ""
    fabric: str = ""
    rate: float | None = None
    problem: str = ""
    interface: str = ""
    leads: frozenset[str] = frozenset()

    @cached_property
    def ip(self) -> str:
        """The address without the prefix length."""
        return self.address.partition("/")[0]

    @cached_property
    def subnet(self) -> str:
        """The subnet of the address; "" without one."""
        return _subnet(self.address) if self.address else ""

    def __str__(self) -> str:
        facts = [self.address or self.fabric or "no address", rate_text(self.rate)]
        return f"{self.name} ({', '.join(facts)}{', ' + self.problem if self.problem else ''})"


def rate_text(rate: float | None) -> str:
    """ "25 Gbit/s" for 25000; "rate unknown" for None."""
    if rate is None:
        return "rate unknown"
    return f"{rate / 1000:.3g} Gbit/s" if rate >= 1000 else f"{rate:.3g} Mbit/s"


def list_text(devices: Iterable[Device]) -> str:
    """The devices as text, for errors."""
    return "; ".join(map(str, devices)) or "none"


def local_devices(
    transports: Sequence[str] | None = None, interfaces: Sequence[Interface] | None = None, sysfs: Path = Path("/sys")
) -> list[Device]:
    """All devices of this host, RDMA first.

    Arguments:
        transports: UCX' transports from `_core.ucx_info()` ("tcp/eth0", "rc_mlx5/mlx5_0:1"). A device that is not among
            them has a problem. None: the function does not check it.
        interfaces: the interfaces; None: the kernel's.
        sysfs: the folder in which the kernel describes devices.
    """
    known = load_core().network_interfaces() if interfaces is None else interfaces
    addresses = {name: _address_for_ucx(found) for name, _, _, found in known}
    devices = _rdma_ports(sysfs, addresses) + [_tcp_device(interface, sysfs) for interface in known]
    return devices if transports is None else [_checked(device, set(transports)) for device in devices]


@cache
def _subnet(address: str) -> str:
    return str(ipaddress.ip_interface(address).network)


def _address_for_ucx(addresses: Sequence[str]) -> str:
    """The address that UCX takes: the first one that is not link-local, of the family that UCX_TCP_AF_PRIO prefers."""
    parsed = [ipaddress.ip_interface(address) for address in addresses]
    families = {"inet": 4, "inet6": 6}
    for family in os.environ.get("UCX_TCP_AF_PRIO", "inet,inet6").split(","):
        for each in parsed:
            if each.version == families.get(family.strip()) and not each.ip.is_link_local:
                return str(each)
    return ""


def _tcp_device(interface: Interface, sysfs: Path) -> Device:
    name, problem, is_loopback, addresses = interface
    address = _address_for_ucx(addresses)
    if is_loopback:
        problem = LOOPBACK
    elif not problem and not address:
        problem = "has link-local addresses only" if addresses else "has no address"
    speed = _read(sysfs / "class/net" / name / "speed")
    # For an unknown speed the kernel writes -1, and old versions write 2^32 - 1.
    rate = float(speed) if speed.isdigit() and 0 < int(speed) < 2**32 - 1 else None
    return Device(name, "tcp", address, "", rate, problem, name)


def _rdma_ports(sysfs: Path, addresses: Mapping[str, str]) -> list[Device]:
    devices = []
    for port in sorted((sysfs / "class/infiniband").glob("*/ports/*")):
        state = _read(port / "state")  # "4: ACTIVE"
        rate = re.match(r"[\d.]+", _read(port / "rate"))  # "100 Gb/sec (4X EDR)"
        problem = "" if state.endswith(_ACTIVE) else f"is {state.partition(': ')[2].lower() or 'not active'}"
        interface = address = fabric = ""
        if _read(port / "link_layer") == "Ethernet":
            interface = _interface_of(port)
            address = addresses.get(interface, "")
            if not problem and not address:
                problem = f"its interface {interface} has no address" if interface else "has no interface"
        else:
            fabric = _read(port / "gids/0")[:19]  # "fe80:0000:0000:0000:…"
        name = f"{port.parent.parent.name}:{port.name}"
        speed = float(rate[0]) * 1000 if rate else None
        devices.append(Device(name, "rdma", address, fabric, speed, problem, interface))
    return devices


def _interface_of(port: Path) -> str:
    """The Ethernet interface of a RoCE port: the interface of its first address in use."""
    entries = sorted((port / "gid_attrs/ndevs").glob("*"), key=lambda path: int(path.name))
    return next((found for entry in entries if (found := _read(entry))), "")


def _checked(device: Device, transports: set[str]) -> Device:
    offered = any(
        name == device.name and (transport == "tcp") == (device.kind == "tcp")
        for transport, _, name in (each.partition("/") for each in transports)
    )
    if device.problem or offered:
        return device
    set_ = [f"{name}={os.environ[name]}" for name in ("UCX_NET_DEVICES", "UCX_TLS") if name in os.environ]
    if set_:
        why = f"UCX does not offer it with {' '.join(set_)}"
    else:
        why = NO_RDMA if device.kind == "rdma" else "this UCX does not offer it"
    return replace(device, problem=why)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # an empty entry, or the speed of an interface that is down
        return ""
