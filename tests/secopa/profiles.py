# SPDX-License-Identifier: Apache-2.0
"""Profiles of the simplest possible machines, for tests."""

from __future__ import annotations

from hipress.secopa.profile.curves import EncodedSize, EncodedSizes, PublishedCurve
from hipress.secopa.profile.linked import Factors, LinkedCosts, LinkedTimes, Summed
from hipress.secopa.profile.links import LinkCosts
from hipress.secopa.profile.profile import CodecCosts, CodecTimes, MachineDescription, Profile


def line(bytes_per_s: float, fixed_s: float = 0.0) -> PublishedCurve:
    return PublishedCurve(s_per_byte=1 / bytes_per_s, fixed_s=fixed_s, overhead_s=0.0)


def codec(ratio: float, bytes_per_s: float, fixed_s: float = 0.0, error: float | None = None) -> CodecCosts:
    """The costs of a codec that encodes, decodes and merges at the same rate."""
    same = line(bytes_per_s, fixed_s)
    return CodecCosts(
        threads={1: CodecTimes(encode=same, decode=same, merge=same)},
        encoded=EncodedSizes(points=(EncodedSize(raw_bytes=2**20, encoded_bytes=int(ratio * 2**20)),)),
        relative_error=error,
    )


def profile(
    codecs: dict[str, CodecCosts] | None = None,
    bandwidth: float = 1.25e8,
    latency: float = 5e-5,
    sums: float = 1e10,
    link_cpu_s_per_byte: float = 0.0,
) -> Profile:
    """A profile of hosts with one rank each; the default bandwidth is 1 Gbit/s."""
    return Profile(
        made="for a test",
        machine=MachineDescription(text="none", cores=2),
        codecs={"onebit": codec(1 / 32, 4e9, 1e-5)} if codecs is None else codecs,
        sum=line(sums),
        link=LinkCosts(
            latency_s=latency,
            bandwidth_bytes_per_s=bandwidth,
            send_cpu_s_per_byte=link_cpu_s_per_byte,
            receive_cpu_s_per_byte=link_cpu_s_per_byte,
        ),
    )


def linked(
    bytes_per_s: float, fixed_s: float = 0.0, block: int = 256, most_ranks: int = 8, error: float | None = None
) -> LinkedCosts:
    """The costs of a codec whose levels ranks add; its three computations have the same rate."""
    same = line(bytes_per_s, fixed_s)
    sizes = tuple(EncodedSize(raw_bytes=4 * n, encoded_bytes=4 * -(-n // block)) for n in (2**10, 2**24))
    return LinkedCosts(
        threads={1: LinkedTimes(first=same, second=same, result=same)},
        summed=Summed(statistics=EncodedSizes(points=sizes), most_ranks=most_ranks),
        relative_error=error,
        states=1,
    )


def low_rank(bytes_per_s: float, rank: int = 1, min_ratio: float = 2.0) -> LinkedCosts:
    """The costs of a codec that sends a matrix as two factors."""
    same = line(bytes_per_s)
    return LinkedCosts(
        threads={1: LinkedTimes(first=same, second=same, result=same)},
        factors=Factors(rank=rank, min_ratio=min_ratio),
        relative_error=0.9,
        states=1,
    )
