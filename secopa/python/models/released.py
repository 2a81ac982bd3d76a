# SPDX-License-Identifier: Apache-2.0
"""The formulas of the script released with the paper (src/SeCoPa/SeCoPa.py), for any number of hosts.

    ps:    gather(m/K) + broadcast(m/K) + (N−1)·sum(m/K)
           gather(r·m/K) + broadcast(r·m/K) + min(K+1, N)·enc(m/K) + min(N−1+K, 2(N−1))·dec(r·m/K) + (N−1)·sum(m/K)
    ring:  2(N−1)·send(m/K) + (N−1)·sum(m/K)
           2(N−1)·send(r·m/K) + N·enc(m/K) + N·dec(r·m/K) + (N−1)·sum(m/K)

with K from 1 to N. The script has measured costs of gathering and broadcasting for some numbers of hosts. For other
numbers the model interpolates each constant linearly between the nearest smaller and larger number, or extrapolates it
from the nearest two.
"""

from __future__ import annotations

from collections.abc import Mapping

from hipress.errors import InvalidArgument
from hipress.secopa.models.serial import SerialModel
from hipress.secopa.profile.curves import PublishedCurve
from hipress.secopa.profile.links import LinkCosts
from hipress.secopa.profile.profile import CodecTimes, Profile


class ReleasedModel(SerialModel):
    """The formulas of the module's docstring."""

    name = "released"

    def __init__(self, profile: Profile, world: int) -> None:
        super().__init__(profile, world)
        published = profile.collectives
        if published is None:
            self._step = _of_link(profile.link, 1)
            self._gather = self._broadcast = _of_link(profile.link, world - 1)
        else:
            self._step = published.ring_step
            self._gather = curve_for(published.ps_gather, world)
            self._broadcast = curve_for(published.ps_broadcast, world)

    def max_partitions(self) -> int:
        return self.world

    def uncompressed_s(self, size: float, partitions: int, topology: str) -> float:
        return self._moving_s(size / partitions, topology) + self._adding_s(size / partitions)

    def compressed_s(self, size: float, encoded: float, times: CodecTimes, partitions: int, topology: str) -> float:
        others = self.world - 1
        if topology == "ring":
            encodes, decodes = self.world, self.world
        else:
            encodes, decodes = min(partitions + 1, self.world), min(others + partitions, 2 * others)
        piece = size / partitions
        computing = encodes * times.encode.seconds(piece) + decodes * times.decode.seconds(piece)
        return self._moving_s(encoded / partitions, topology) + computing + self._adding_s(piece)

    def _moving_s(self, size: float, topology: str) -> float:
        if topology == "ring":
            return 2 * (self.world - 1) * self._step.seconds(size)
        return self._gather.seconds(size) + self._broadcast.seconds(size)

    def _adding_s(self, size: float) -> float:
        return (self.world - 1) * self.profile.sum.seconds(size)


def curve_for(curves: Mapping[int, PublishedCurve], nodes: int) -> PublishedCurve:
    """The measured curve for `nodes` hosts, or one interpolated or extrapolated from the measured curves."""
    if nodes in curves:
        return curves[nodes]
    if len(curves) < 2:
        raise InvalidArgument(
            f"the profile's collectives are for {next(iter(curves))} hosts only; it has none for {nodes}"
        )
    measured = sorted(curves)
    above = next((place for place, count in enumerate(measured) if count > nodes), len(measured) - 1)
    low, high = measured[max(above, 1) - 1], measured[max(above, 1)]
    share = (nodes - low) / (high - low)

    def between(one: float, other: float) -> float:
        return one + share * (other - one)

    one, other = curves[low], curves[high]
    return PublishedCurve(
        s_per_byte=max(0.0, between(one.s_per_byte, other.s_per_byte)),
        fixed_s=between(one.fixed_s, other.fixed_s),
        overhead_s=max(0.0, between(one.overhead_s, other.overhead_s)),
    )


def _of_link(link: LinkCosts, messages: int) -> PublishedCurve:
    """A curve from a measured link, over which one host exchanges `messages` messages in a row."""
    fixed_s = link.latency_s
    return PublishedCurve(s_per_byte=messages / link.bandwidth_bytes_per_s, fixed_s=fixed_s, overhead_s=fixed_s)
