# SPDX-License-Identifier: Apache-2.0
"""A training job of real processes that tests disturb; each rank writes its facts into a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.ranks import clean_environment, free_port

_SCRIPT = """
import hashlib, json, os, sys, time
import torch
import hipress.torch as hp

torch.set_num_threads(1)
folder, codec, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])

def fingerprint():
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()

def say(**facts):
    with open(f"{folder}/rank{os.environ['HIPRESS_RANK']}", "a") as file:
        file.write(json.dumps({"time": time.time(), **facts}) + "\\n")

hp.init()
torch.manual_seed(0)
nn = torch.nn
model = nn.Sequential(nn.Linear(64, 700), nn.ReLU(), nn.Linear(700, 700), nn.Linear(700, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec=codec)
say(event="ready", pid=os.getpid())
before = None
try:
    for step in range(steps):
        optimizer.zero_grad()
        before = fingerprint()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        say(event="step", step=step)
except hp.HipressError as error:
    say(event="error", kind=type(error).__name__, message=str(error), unchanged=fingerprint() == before)
    start = time.time()
    try:
        optimizer.step()
    except hp.HipressError as again:
        say(event="again", kind=type(again).__name__, unchanged=fingerprint() == before)
    hp.shutdown()
    say(event="shutdown", seconds=time.time() - start)
    sys.exit(3)
hp.shutdown()
"""


class TrainingJob:
    """Starts `world_size` ranks without a launcher, so no launcher reacts when a test disturbs a rank."""

    def __init__(
        self, folder: Path, world_size: int, codec: str = "none", steps: int = 100_000, **variables: str
    ) -> None:
        self.folder = folder
        place = {"HIPRESS_SIZE": str(world_size), "HIPRESS_LOCAL_SIZE": str(world_size), "HIPRESS_JOB_TOKEN": "job"}
        place["HIPRESS_RENDEZVOUS"] = f"127.0.0.1:{free_port()}"
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", _SCRIPT, str(folder), codec, str(steps)],
                env=clean_environment(
                    **place, HIPRESS_RANK=str(rank), HIPRESS_LOCAL_RANK=str(rank), OMP_NUM_THREADS="1", **variables
                ),
            )
            for rank in range(world_size)
        ]

    def facts(self, rank: int) -> list[dict[str, Any]]:
        file = self.folder / f"rank{rank}"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def fact(self, rank: int, event: str, timeout: float, number: int = 1) -> dict[str, Any]:
        """Waits for the rank's `number`-th fact of this kind and returns it."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            found = [fact for fact in self.facts(rank) if fact["event"] == event]
            if len(found) >= number:
                return found[number - 1]
            time.sleep(0.02)
        raise AssertionError(f"rank {rank}: no '{event}' within {timeout} s; last: {self.facts(rank)[-3:]}")

    def signal(self, rank: int, number: int) -> float:
        os.kill(self.processes[rank].pid, number)
        return time.time()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
