# SPDX-License-Identifier: Apache-2.0
"""One rank of benchmarks/sets: it averages a list of tensors again and again, in its set or in its whole job."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch

import hipress.torch as hp
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.torch.synchronizer import GradientSynchronizer

#: Steps before the clock starts.
_WARM_UP = 5


def main() -> None:
    """Measures the job in the only argument."""
    job = json.loads(sys.argv[1])
    hp.init()
    starts = range(0, hp.size(), job["set"])
    sets = [hp.add_process_set(range(start, start + job["set"])) for start in starts] if len(starts) > 1 else []
    own = sets[hp.rank() // job["set"]] if sets else hp.global_process_set
    tensors = [(f"layer{index}", torch.randn(job["elements"] // 100, 100)) for index in range(job["tensors"])]
    synchronizer = GradientSynchronizer(tensors, SynchronizationOptions(codec=job["codec"], process_set=own))

    def step() -> float:
        start = time.perf_counter()
        operations = [synchronizer.submit(index, tensor) for index, (_, tensor) in enumerate(tensors)]
        for operation in operations:
            synchronizer.wait(operation)
        return time.perf_counter() - start

    for _ in range(_WARM_UP):
        step()
    folder = Path(job["folder"])
    (folder / f"ready-{job['name']}-{hp.rank()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.005)
    times = [step() for _ in range(job["steps"])]
    (folder / f"{job['name']}-{hp.rank()}.json").write_text(json.dumps(statistics.median(times)))
    # Until all jobs have been measured each rank goes on, so that none of them is measured alone.
    is_over = 0.0
    while not is_over:
        step()
        is_over = float(hp.allreduce(torch.tensor([float((folder / "over").exists())]), name="over", process_set=own))
    hp.shutdown()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
