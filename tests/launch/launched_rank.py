# SPDX-License-Identifier: Apache-2.0
"""The program of each rank of a job in test_launchers.py.

    launched_rank.py DIRECTORY end|kill [srun]

Writes its place and its meetings into DIRECTORY/RANK.json, and its process id into DIRECTORY/NUMBER.pid. `kill`: rank 1
kills itself, and the others wait until their launcher ends them. `srun`: the rank replaces the variables of the mpirun
that started it by srun's variables, but mpirun's store stays.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from hipress import runtime

#: torchrun's variables, which `hipress run` sets, and one variable of UCX.
_TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
_TORCH += ("UCX_LOG_LEVEL", "LATER")


def main(directory: str, ending: str, disguise: str = "") -> None:
    """Meets the other ranks twice, tells them its rank, and ends."""
    Path(directory, f"{os.getpid()}.pid").write_text(f"{os.getpid()}\n")
    if disguise == "srun":
        _look_like_srun()
    meetings = []
    for _ in range(2):
        runtime.shutdown()
        runtime.init(timeout=60)
        engine = runtime.current().engine
        meetings.append([int(told) for told in engine.allgather("told", b"%d" % runtime.rank())])
    rank = runtime.rank()
    place = [rank, runtime.size(), runtime.local_rank(), runtime.local_size(), runtime.cross_rank()]
    torch = [os.environ.get(name) for name in _TORCH]
    found: dict[str, object] = {
        "torch": torch,
        "source": runtime.current().place.source,
        "place": place,
        "meetings": meetings,
    }
    Path(directory, f"{rank}.json").write_text(json.dumps(found))
    if ending == "kill":
        engine.allgather("all have written", b"")
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    runtime.shutdown()
    time.sleep(0.5 * rank)  # the ranks end one after the other


def _look_like_srun() -> None:
    size = os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ["PMI_SIZE"]
    rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
    for name in [name for name in os.environ if name.startswith(("OMPI_COMM_WORLD_", "MPI_LOCAL"))]:
        del os.environ[name]
    os.environ |= {
        "SLURM_STEP_NUM_TASKS": size,
        "SLURM_STEP_TASKS_PER_NODE": size,
        "SLURM_STEP_NODELIST": "here",
        "SLURM_PROCID": rank,
        "SLURM_LOCALID": rank,
        "SLURM_NODEID": "0",
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
