# SPDX-License-Identifier: Apache-2.0
"""A training with DiLoCo for `hipress run --elastic`: `training.py FOLDER CODEC STEPS SYNC_EVERY OPTIONS`.

`OPTIONS`: arguments of DiLoCo() as JSON; "quorum" is the list of Quorum's. Each process writes lines into
FOLDER/NUMBER.txt: "begins STEP RANK SIZE PID TIME" when it is in another world, "step STEP SIZE" after each step, and
"ends LOSS DIGEST LOSSES BUFFER" at the end. A file FOLDER/pause-NUMBER holds the process after a step;
FOLDER/last has another number of steps.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import hipress.torch as hp
from hipress import runtime
from hipress.torch.diloco import Quorum, SparseLoCo

FEATURES, OUTPUTS = 30, 16


def batch(step: int, process: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of a linear model without noise."""
    inputs = torch.randn(16, FEATURES, generator=torch.Generator().manual_seed(1000 * step + process))
    solution = torch.linspace(-1, 1, OUTPUTS * FEATURES).reshape(FEATURES, OUTPUTS)
    return inputs, inputs @ solution


def loss_of(model: torch.nn.Module, step: int, process: int) -> torch.Tensor:
    inputs, targets = batch(step, process)
    loss: torch.Tensor = (model(inputs) - targets).square().mean()
    return loss


def last_step(folder: Path, steps: int) -> int:
    """The step after which the training ends."""
    file = folder / "last"
    return int(file.read_text()) if file.exists() else steps


def main(folder: Path, codec: str, steps: int, sync_every: int, options: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    number = int(os.environ["HIPRESS_ELASTIC_PROCESS"])
    report = (folder / f"{number}.txt").open("a", buffering=1)
    hp.init()
    torch.manual_seed(number)  # every process begins with other parameters
    model = torch.nn.Linear(FEATURES, OUTPUTS, bias=False)
    model.register_buffer("of_rank_0", torch.tensor([float(number)]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2 if codec == "sparseloco" else 1.0)
    if "quorum" in options:
        options["quorum"] = Quorum(*options["quorum"])
    chosen = SparseLoCo() if codec == "sparseloco" else codec
    diloco = hp.DiLoCo(model, optimizer, sync_every=sync_every, codec=chosen, **options)
    world = None
    while diloco.steps < last_step(folder, steps):
        if runtime.current() is not world:
            world = runtime.current()
            report.write(f"begins {diloco.steps} {hp.rank()} {hp.size()} {os.getpid()} {time.time():.3f}\n")
        optimizer.zero_grad()
        loss_of(model, diloco.steps, number).backward()
        optimizer.step()
        report.write(f"step {diloco.steps} {hp.size()}\n")
        time.sleep(0.02)
        while (folder / f"pause-{number}").exists():
            time.sleep(0.01)
    diloco.detach()
    with diloco.outer_parameters():
        loss = float(loss_of(model, 7, 99))
        digest = hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest()
    lost = sorted(each.process for each in hp.elastic.losses())
    report.write(f"ends {loss:.6f} {digest} {lost} {float(model.of_rank_0):g}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5]))
