# SPDX-License-Identifier: Apache-2.0
"""One replica of benchmarks/members: a process of an elastic job that trains diloco.py's model.

It writes lines into FOLDER/NUMBER.txt: "pid PID" at first, "step STEP" after each step, and "loss STEP LOSS" of the
outer parameters after each exchange, the last one after detach(). A file FOLDER/pause-NUMBER holds it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch

import hipress.torch as hp
from benchmarks.diloco.model import ByteDecoder, loss, read_text
from hipress.torch.diloco import Quorum


@dataclass(frozen=True)
class Job:
    """The settings of one training, equal on all replicas."""

    folder: str
    steps: int
    sync_every: int
    codec: str
    seed: int
    quorum: int
    sequences: int = 2
    context: int = 32
    width: int = 64
    layers: int = 2
    learning_rate: float = 2e-3

    def to_json(self) -> str:
        """The job as JSON, for a replica's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """Parses the JSON of `to_json`."""
        return Job(**json.loads(text))


def train(job: Job, number: int) -> None:
    """The training of process `number`."""
    folder = Path(job.folder)
    report = (folder / f"{number}.txt").open("w", buffering=1)
    report.write(f"pid {os.getpid()}\n")
    hp.init()
    torch.manual_seed(job.seed)
    text = read_text(job.context)
    model = ByteDecoder(job.width, job.layers, job.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.learning_rate)
    diloco = hp.DiLoCo(
        model,
        optimizer,
        sync_every=job.sync_every,
        codec=job.codec,
        quorum=Quorum(job.quorum, most_late=10) if job.quorum else None,
    )

    def judge() -> None:
        with torch.no_grad(), diloco.outer_parameters():
            report.write(f"loss {diloco.steps} {loss(model, text.judged).item():.6f}\n")

    # Each process draws other sequences, also the process that replaces a lost one.
    generator = torch.Generator().manual_seed(1000 * job.seed + number)
    while diloco.steps < job.steps:
        optimizer.zero_grad()
        loss(model, text.batch(job.sequences, generator)).backward()
        optimizer.step()
        report.write(f"step {diloco.steps}\n")
        if diloco.steps % job.sync_every == 0:
            judge()
        while (folder / f"pause-{number}").exists():
            time.sleep(0.01)
    diloco.detach()
    judge()


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(Job.from_json(sys.argv[1]), int(os.environ["HIPRESS_ELASTIC_PROCESS"]))
