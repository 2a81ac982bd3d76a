# SPDX-License-Identifier: Apache-2.0
"""Simulated ranks send the messages and bytes of real engines, rank by rank, as the transport counts them."""

from __future__ import annotations

import numpy as np
import pytest

from hipress import _core
from tests.core.casync.engine_world import run_ranks, spec
from tests.core.simulation.clusters import Cluster, codec, tensor

#: Name, elements and partitions; 0 partitions: by size, so that all partitions have the same number of elements.
TENSORS = [("bias", 100, 0), ("norm", 3000, 0), ("conv", 1024 * 96, 0), ("fc", 1024 * 240, 12), ("embed", 1024 * 64, 2)]


def counted(hosts: list[int], topology: str) -> list[tuple[int, int]]:
    """By rank: the messages and bytes of an engine in one step; no rank reads its neighbours' memory."""

    def body(engine: _core.Engine) -> tuple[int, int]:
        arrays = [np.ones(count, np.float32) for _, count, _ in TENSORS]
        handles = engine.declare(
            [
                spec(name, values, codec="fp16", topology=topology, partitions=partitions, min_compress_bytes=4096)
                for (name, _, partitions), values in zip(TENSORS, arrays, strict=True)
            ]
        )
        submitted = [engine.submit(one, values, values) for one, values in zip(handles, arrays, strict=True)]
        for operation in submitted:
            engine.wait(operation)
        engine.allgather("all have sent", b"")
        counters = engine.counters()
        return counters["messages_sent"], counters["bytes_sent"]

    return run_ranks(len(hosts), body, options={"hosts": hosts}, read_neighbours=False)


@pytest.mark.parametrize(
    ("hosts", "per_host", "topology"),
    [
        (2, 1, "ps"),
        (4, 1, "ps"),
        (4, 1, "ring"),
        (3, 1, "allgather"),
        (2, 2, "ps"),
        (2, 2, "ring"),
        (2, 2, "hierarchical"),
        (3, 2, "hierarchical(ring)"),
        (2, 2, "hierarchical(allgather)"),
    ],
)
def test_messages_and_bytes(hosts, per_host, topology):
    found = counted([rank // per_host for rank in range(hosts * per_host)], topology)
    cluster = Cluster(hosts, per_host, neighbours_read=False)
    tensors = [
        tensor(name, count, partitions=partitions, topology=topology, codec=0 if 4 * count >= 4096 else -1)
        for name, count, partitions in TENSORS
    ]
    step = cluster.step(tensors, [codec(0.5)])
    simulated = [(rank.messages, rank.sent_bytes + rank.local_bytes) for rank in step.ranks]
    assert simulated == [(messages, pytest.approx(sent)) for messages, sent in found]
