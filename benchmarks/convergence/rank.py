# SPDX-License-Identifier: Apache-2.0
"""One rank of convergence.py: it trains a model for each cell, and rank 0 writes a line for each result."""

from __future__ import annotations

import gc
import hashlib
import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist
from torch import nn

from benchmarks.convergence.cells import Cell
from benchmarks.convergence.job import JUDGED, Job
from benchmarks.convergence.systems import TIMEOUT, Trainer, trainer
from benchmarks.convergence.tasks import TASKS, Data, loss
from benchmarks.harness.torch_meeting import gather, join

#: The result of a training is the mean of the last ones of its JUDGED losses.
LAST = 3
#: Parts of a training after which the error of an average is measured.
_MEASURED = (0.1, 0.5, 0.9)


class ReplicasDiffer(Exception):
    """The ranks' parameters differ after a training, so it has no result."""


def _judge(model: nn.Module, data: Data) -> float:
    """The loss on the examples that are kept back; each rank computes a part of it."""
    rank, world = dist.get_rank(), dist.get_world_size()
    inputs, targets = (each[rank::world] for each in data.judged)
    model.eval()
    with torch.no_grad():
        own = loss(model, (inputs, targets)).item() * len(inputs)
    model.train()
    return sum(gather(own)) / len(data.judged[0])


def _train(model: nn.Module, data: Data, cell: Cell, trains: Trainer, steps: int) -> dict[str, Any]:
    """Ends early, on all ranks in the same step, if the loss is not finite."""
    examples = TASKS[cell.task].examples
    generator = torch.Generator().manual_seed(1000 * cell.seed + dist.get_rank())
    measured = {round(part * steps) for part in _MEASURED}
    losses, errors = [_judge(model, data)], []
    before = trains.sent_bytes()
    for step in range(1, steps + 1):
        error = trains.step(data.batch(examples, generator), step in measured)
        errors += [] if error is None else [error]
        if step % (steps // JUDGED) == 0:
            losses.append(_judge(model, data))
            if not math.isfinite(losses[-1]):
                break
    last = losses[-LAST:]
    mean = sum(last) / LAST
    after = trains.sent_bytes()
    sent = (
        None if before is None or after is None else max(gather(after - before)) // step
    )  # fewer than `steps` if it ended early
    return {
        "loss": mean if math.isfinite(mean) else None,
        "losses": [round(each, 5) if math.isfinite(each) else None for each in losses],
        "bytes": sent,
        "vnmse": sum(errors) / len(errors) if errors and math.isfinite(sum(errors)) else None,
        "windows": [
            (step, *(each if math.isfinite(each) else None for each in errors)) for step, *errors in trains.windows
        ],
        "steps": steps,
        "parameters": sum(each.numel() for each in model.parameters()),
    }


def _trained(cell: Cell, data: Data, steps: int | None) -> dict[str, Any]:
    start = time.monotonic()
    steps = TASKS[cell.task].steps if steps is None else steps
    torch.manual_seed(cell.seed)  # the same initial weights on all ranks and in all methods
    model = data.model()
    with trainer(cell, model, steps) as trains:
        found = _train(model, data, cell, trains, steps)
    digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).digest()
    if len(set(gather(digest))) > 1:
        raise ReplicasDiffer(f"after {cell}")
    return {**asdict(cell), **found, "ranks": dist.get_world_size(), "time_s": round(time.monotonic() - start, 1)}


def main() -> None:
    """Runs the trainings of the job in the only argument, until its time is over."""
    job = Job.from_json(sys.argv[1])
    end = time.monotonic() + job.seconds
    join(TIMEOUT, job.gloo_port)
    data: dict[str, Data] = {}
    for cell in job.cells:
        if gather(time.monotonic())[0] > end:
            break
        if cell.task not in data:
            data = {cell.task: TASKS[cell.task].read()}
        row = _trained(cell, data[cell.task], job.steps)
        gc.collect()
        if dist.get_rank() == 0:
            with Path(job.result).open("a") as file:
                file.write(json.dumps(row) + "\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
