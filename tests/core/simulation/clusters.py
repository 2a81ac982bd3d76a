# SPDX-License-Identifier: Apache-2.0
"""Simulated clusters and costs for tests, as simple as each test allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hipress import _core

#: The links' bandwidth in bytes per second.
RATE = 1e9


def per_byte(seconds: float, fixed: float = 0.0) -> list[tuple[float, float]]:
    return [(0, fixed), (1e9, fixed + 1e9 * seconds)]


def costs(seconds_per_byte: float, fixed: float = 0.0) -> _core.ComputeCosts:
    return _core.ComputeCosts([per_byte(seconds_per_byte, fixed)])


def codec(ratio: float = 1 / 32, seconds_per_byte: float = 0.0) -> _core.SimulatedCodec:
    same = costs(seconds_per_byte)
    return _core.SimulatedCodec(same, same, same, [(0, 0), (1e9, 1e9 * ratio)])


def tensor(name: str = "t", elements: int = 1 << 20, **other: Any) -> tuple[Any, ...]:
    """A simulated tensor. codec -1: none; partitions 0: by size; members: of its group; times: a factor on the
    processors' work for messages; after: index of the tensor that releases it; before, behind: its computations, each
    an index and bytes; packs: a rank's own values travel in half as many bytes."""
    fields = {"bytes": 4, "codec": -1, "topology": "ps", "partitions": 0, "priority": 0, "release": 0.0, "members": 1}
    fields |= {"times": 1.0, "after": -1, "before": (-1, 0.0), "behind": (-1, 0.0), "packs": False}
    fields.update(other)
    return (name, elements, *fields.values())


@dataclass
class Cluster:
    """Hosts with equal numbers of ranks; each host is a machine of its own unless `machines` says otherwise."""

    hosts: int = 2
    per_host: int = 1
    cores: int = 4
    machines: list[int] | None = None
    threads: int = 2
    latency_s: float = 0.0
    per_message_s: float = 0.0
    cpu_per_byte_s: float = 0.0
    unlike: list[tuple[int, int, float]] = field(default_factory=list)
    sums: _core.ComputeCosts = field(default_factory=_core.ComputeCosts)
    submission_s: float = 0.0
    neighbours_read: bool = True

    def link(self, rate: float = RATE) -> _core.SimulatedLink:
        return _core.SimulatedLink(
            bytes_per_s=rate,
            latency_s=self.latency_s,
            send_s_per_message=self.per_message_s,
            receive_s_per_message=self.per_message_s,
            send_s_per_byte=self.cpu_per_byte_s,
            receive_s_per_byte=self.cpu_per_byte_s,
        )

    def step(self, tensors: list[tuple[Any, ...]], codecs: list[Any] | None = None, **options: Any) -> Any:
        machines = list(range(self.hosts)) if self.machines is None else self.machines
        cluster = _core.SimulatedCluster(
            hosts=[rank // self.per_host for rank in range(self.hosts * self.per_host)],
            machines=machines,
            cores=[self.cores] * (max(machines) + 1),
            network=self.link(),
            shared_memory=self.link(),
            unlike=[(one, other, self.link(rate)) for one, other, rate in self.unlike],
            compute_threads=self.threads,
            neighbours_read=self.neighbours_read,
        )
        engine = _core.EngineCosts(sum=self.sums, submission_s=self.submission_s)
        return _core.simulate_step(cluster, engine, [codec()] if codecs is None else codecs, tensors, **options)
