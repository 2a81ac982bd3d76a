# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""Starts Horovod over Gloo without horovodrun, which would log in to the nodes.

It runs in an environment of horovod_environment.py.
"""

from __future__ import annotations

import os
from typing import Any

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer

from benchmarks.harness.meeting import Meeting


def start(hvd: Any, meeting: Meeting, interface: str, timeout: float) -> RendezvousServer | None:
    """Starts `hvd` (horovod.FRAMEWORK) with its defaults for fusion and cycle time. Rank 0 keeps the returned server.

    `interface`: the network device between ranks; empty: the loopback.
    """
    rank, world = meeting.rank, meeting.world
    local_rank, local_size = (int(os.environ[f"HIPRESS_LOCAL_{what}"]) for what in ("RANK", "SIZE"))
    node = rank // local_size
    server, port = None, 0
    if rank == 0:
        nodes = ",".join(f"node{index}:{local_size}" for index in range(world // local_size))
        server = RendezvousServer()
        port = server.start()
        server.init(get_host_assignments(parse_hosts(nodes), world))
    port = meeting.gather(port)[0]
    os.environ.update(
        HOROVOD_RANK=str(rank),
        HOROVOD_SIZE=str(world),
        HOROVOD_LOCAL_RANK=str(local_rank),
        HOROVOD_LOCAL_SIZE=str(local_size),
        HOROVOD_CROSS_RANK=str(node),
        HOROVOD_CROSS_SIZE=str(world // local_size),
        HOROVOD_HOSTNAME=f"node{node}",
        HOROVOD_CONTROLLER="gloo",
        HOROVOD_CPU_OPERATIONS="gloo",
        HOROVOD_GLOO_RENDEZVOUS_ADDR=os.environ["MASTER_ADDR"] if interface else "127.0.0.1",
        HOROVOD_GLOO_RENDEZVOUS_PORT=str(port),
        HOROVOD_GLOO_IFACE=interface or "lo",
        HOROVOD_GLOO_TIMEOUT_SECONDS=str(int(timeout)),
    )
    hvd.init()
    return server
