# SPDX-License-Identifier: Apache-2.0
"""Pure functions that find the networks that join all hosts of a job, and choose the one that carries the gradients.

A network is a set of one device per host: the kernel of each host reaches every other host's device through its own
device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hipress.network.devices import Device, Kind

#: HiPress leaves the network of the control connection only for a network that is measured as faster by this factor.
#: Two measurements of one network differ by less.
CLEARLY_FASTER = 1.25


@dataclass(frozen=True)
class Host:
    """A network namespace of one machine. `rank`: the first of the job's ranks there."""

    name: str
    rank: int
    devices: tuple[Device, ...]
    met_at: str = ""
    """The host's address on its connection to rank 0."""


@dataclass(frozen=True)
class Network:
    """One device of each host, in the order of the hosts."""

    devices: tuple[Device, ...]

    @property
    def kind(self) -> Kind:
        """The kind of all its devices."""
        return self.devices[0].kind

    @cached_property
    def rate(self) -> float | None:
        """The rate of its slowest device in Mbit/s; None if the rate of a device is unknown."""
        rates = [device.rate for device in self.devices]
        known = [rate for rate in rates if rate is not None]
        return min(known) if len(known) == len(rates) else None


def networks(hosts: Sequence[Host]) -> list[Network]:
    """All networks that join all hosts, the best first."""
    found: dict[tuple[str, ...], Network] = {}
    for seed in hosts[0].devices:
        devices = _joined(hosts, seed)
        if devices is not None:
            found.setdefault(tuple(device.name for device in devices), Network(devices))
    return sorted(found.values(), key=by_speed)


def by_speed(one: Device | Network) -> tuple[bool, float]:
    """A sort key that puts the best first: RDMA before TCP, then by rate, unknown rates last."""
    return one.kind != "rdma", -(one.rate or 0.0)


def contenders(found: Sequence[Network]) -> list[Network]:
    """The networks of `found` (not empty) that may be the fastest, according to the drivers' rates.

    HiPress uses all RDMA networks of this list: UCX spreads a message over UCX_MAX_RNDV_RAILS devices and takes those
    nearest to the process. It uses one TCP network of this list, which decide() chooses.
    """
    best = found[0]
    if best.kind == "rdma":
        return [network for network in found if (network.kind, network.rate) == ("rdma", best.rate)]
    return [network for network in found if network.rate in (best.rate, None)]


def decide(hosts: Sequence[Host], found: Sequence[Network], measured: Mapping[int, float]) -> int:
    """The number in `found` of the network to use. `measured`: rates in Mbit/s by that number.

    The network of the control connection stays, unless another network is clearly faster.
    """
    fastest = max(measured, key=lambda number: measured[number])
    for number in measured:
        met = any(device.ip == host.met_at for device, host in zip(found[number].devices, hosts, strict=True))
        if met and measured[fastest] <= CLEARLY_FASTER * measured[number]:
            return number
    return fastest


def _joined(hosts: Sequence[Host], seed: Device) -> tuple[Device, ...] | None:
    """The network that contains the first host's device `seed`; None if the device does not lead to all hosts."""
    devices = [seed]
    for host in hosts[1:]:
        reached = [device for device in host.devices if _reach_each_other(seed, device)]
        if not reached:
            return None
        devices.append(max(reached, key=lambda device: _likeness(seed, device)))
    return tuple(devices) if _is_network(devices) else None


def _reach_each_other(one: Device, other: Device) -> bool:
    if one.kind != other.kind or one.fabric != other.fabric:
        return False
    if not one.subnet or not other.subnet:
        return bool(one.fabric)
    # Two hosts can have the same address, for example on bridges for their containers.
    return one.ip != other.ip and other.subnet in one.leads and one.subnet in other.leads


def _likeness(seed: Device, device: Device) -> tuple[bool, float, bool]:
    return device.subnet == seed.subnet, device.rate or 0.0, device.name == seed.name


def _is_network(devices: Sequence[Device]) -> bool:
    """Whether every two devices reach each other. The caller has checked this only for the first device."""
    if devices[0].fabric:
        return True
    members = Counter(device.subnet for device in devices)
    addresses = {device.ip for device in devices}
    return len(addresses) == len(devices) and all(
        subnet in device.leads or (subnet == device.subnet and members[subnet] == 1)
        for device in devices
        for subnet in members
    )
