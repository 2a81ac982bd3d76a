# SPDX-License-Identifier: Apache-2.0
"""A training for `hipress run --elastic`: `training.py FOLDER CODEC STEPS COMMIT_EVERY [RATE]`.

Each process writes lines into FOLDER/NUMBER.txt: "begins STEP RANK SIZE PID TIME" in each world, "step STEP"
after each step, and "ends LOSS DIGEST LOSSES" at the end. A file FOLDER/pause-NUMBER holds the process after a step;
FOLDER/last has another number of steps.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

import torch

import hipress.torch as hp

FEATURES = 30


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of a linear model without noise."""
    inputs = torch.randn(16, FEATURES, generator=torch.Generator().manual_seed(1000 * step + rank))
    solution = torch.linspace(-1, 1, 8 * FEATURES).reshape(FEATURES, 8)
    return inputs, inputs @ solution


def last_step(folder: Path, steps: int) -> int:
    """The step after which the training ends."""
    file = folder / "last"
    return int(file.read_text()) if file.exists() else steps


def main(folder: Path, codec: str, steps: int, commit_every: int, rate: float = 0.5) -> None:
    torch.set_num_threads(1)
    number = os.environ.get("HIPRESS_ELASTIC_PROCESS", os.environ.get("HIPRESS_RANK", "0"))
    report = (folder / f"{number}.txt").open("a", buffering=1)
    hp.init()
    torch.manual_seed(int(number))  # every process begins with other parameters
    model = torch.nn.Linear(FEATURES, 8, bias=False)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate), model.named_parameters(), codec=codec, min_compress_bytes=0
    )
    state = hp.elastic.TorchState(model, optimizer, step=0)

    @hp.elastic.run
    def train(state: hp.elastic.TorchState) -> float:
        report.write(f"begins {state.step} {hp.rank()} {hp.size()} {os.getpid()} {time.time():.3f}\n")
        loss = torch.zeros(())
        while state.step < last_step(folder, steps):
            inputs, targets = batch(state.step, hp.rank())
            optimizer.zero_grad()
            loss = (model(inputs) - targets).square().mean()
            loss.backward()
            optimizer.step()
            state.step += 1
            report.write(f"step {state.step}\n")
            time.sleep(0.02)
            while (folder / f"pause-{number}").exists():
                time.sleep(0.01)
            if (folder / f"raise-{number}").exists():
                raise ValueError("the program's own error")
            if state.step % commit_every == 0:
                state.commit()
        return float(loss.detach())

    loss = train(state)
    digest = hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest()
    lost = sorted(each.process for each in hp.elastic.losses())
    report.write(f"ends {loss:.6f} {digest} {lost}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *map(float, sys.argv[5:]))
