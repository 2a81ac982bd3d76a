# SPDX-License-Identifier: Apache-2.0
"""One rank of diloco.py: it trains the model once with each system."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist

from benchmarks.diloco.job import Job
from benchmarks.diloco.model import read_text
from benchmarks.diloco.training import trained
from benchmarks.harness.torch_meeting import join

#: Deadline of waits (seconds), generous because other work may delay a rank.
_TIMEOUT = 300.0


def _stay_on_one_core(rank: int) -> None:
    """Ranks that share cores take turns on the same one. Otherwise one of them has a core alone, is far ahead of its
    peers after H steps, and its wait for them would count as waiting for the network."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def main() -> None:
    """Runs the trainings of the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    _stay_on_one_core(int(os.environ["HIPRESS_RANK"]))
    join(_TIMEOUT, job.gloo_port)
    text = read_text(job.context)
    results = {}
    for system in job.systems:
        start = time.monotonic()
        results[system] = trained(system, text, job, _TIMEOUT)
        gc.collect()
        if dist.get_rank() == 0:
            last = list(results[system].losses.values())[-1:]
            print(f"{system}: {last} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)
    if dist.get_rank() == 0:
        Path(job.result).write_text(json.dumps({name: dataclasses.asdict(each) for name, each in results.items()}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
