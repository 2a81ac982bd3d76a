# SPDX-License-Identifier: Apache-2.0
"""One rank of calls.py: it averages the tensors in each way, in turns."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist

from benchmarks.calls.ways import WAYS
from benchmarks.harness.hipress_session import hipress_session
from benchmarks.harness.torch_meeting import gather, join
from benchmarks.harness.turns import WARM_UPS, order
from benchmarks.models import load

#: Deadline of waits (seconds), generous because other work may delay a rank.
_TIMEOUT = 300.0


def main() -> None:
    """Measures the job in the only argument."""
    job = json.loads(sys.argv[1])
    join(_TIMEOUT, job["gloo_port"])
    sizes = [job["elements"] or each.count for each in load(job["model"]).gradients]
    tensors = [torch.ones(size) for size in sizes]
    seconds: dict[str, list[float]] = {way: [] for way in job["ways"]}
    with hipress_session(_TIMEOUT):
        ways = [(way, WAYS[way](tensors)) for way in job["ways"]]
        for turn in range(WARM_UPS + job["repeats"]):
            for index in order(turn, len(ways)):
                way, average = ways[index]
                dist.barrier()
                start = time.monotonic()
                average(tensors)
                taken = max(gather(time.monotonic() - start))
                if turn >= WARM_UPS:
                    seconds[way].append(taken)
        if not all(bool((tensor == 1).all()) for tensor in tensors):
            raise SystemExit("an average of ones is not one")
    if dist.get_rank() == 0:
        answer = {"seconds": seconds, "tensors": len(sizes), "elements": sum(sizes)}
        Path(job["result"]).write_text(json.dumps(answer))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
