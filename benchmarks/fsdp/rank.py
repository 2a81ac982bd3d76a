# SPDX-License-Identifier: Apache-2.0
"""One rank of fsdp: it trains the model once with each system."""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist

from benchmarks.diloco.model import cut
from benchmarks.fsdp.job import Job
from benchmarks.fsdp.training import trained
from benchmarks.harness.torch_meeting import join
from benchmarks.optimizers.model import TEXTS

#: Deadline of waits (seconds), generous because other work may delay a rank.
_TIMEOUT = 300.0


def main() -> None:
    """Runs the trainings of the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    join(_TIMEOUT, job.gloo_port)
    text = cut(TEXTS[job.text](), job.context)
    results = {}
    for system in job.systems:
        start = time.monotonic()
        results[system] = trained(system, text, job)
        gc.collect()
        if dist.get_rank() == 0:
            took = f"{time.monotonic() - start:.0f} s"
            print(f"{system}: loss {results[system].loss:.4f} ({took})", file=sys.stderr, flush=True)
    if dist.get_rank() == 0:
        Path(job.result).write_text(json.dumps({name: dataclasses.asdict(each) for name, each in results.items()}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
