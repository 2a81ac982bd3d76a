# SPDX-License-Identifier: Apache-2.0
"""Runs on each of four ranks on two hosts: averages over a Gloo group, and counts the bytes that leave rank 0's
host."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.harness import torch_meeting
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape

#: Seconds until the interface has counted the last packets of a collective.
_SETTLE = 0.2
_SENT = Path("/sys/class/net/eth0/statistics/tx_bytes")


def left_the_node(average: GroupAverage, elements: int) -> int:
    """The bytes that the host's network interface sends for one average."""
    tensor = torch.randn(elements, generator=torch.Generator().manual_seed(dist.get_rank()))
    dist.barrier()
    time.sleep(_SETTLE)
    before = int(_SENT.read_text())
    average.start([("a", tensor)], 0).wait()
    dist.barrier()
    time.sleep(_SETTLE)
    return int(_SENT.read_text()) - before


def main(codec: str, elements: int, result: str) -> None:
    torch_meeting.join(60.0)
    found = {}
    for topology, ranks_per_host in (("ps", 0), ("hierarchical", 2)):
        options = GroupOptions(codec, topology, ranks_per_host)
        average = GroupAverage({"a": TensorShape(elements, torch.float32, 2)}, None, options)
        left_the_node(average, elements)  # the first average opens the connections
        found[topology] = left_the_node(average, elements)
        dist.barrier()
    if os.environ["HIPRESS_RANK"] == "0":
        Path(result).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
