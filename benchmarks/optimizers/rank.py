# SPDX-License-Identifier: Apache-2.0
"""One rank of optimizers.py: it trains the model once for each codec and optimizer."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness.hipress_session import hipress_session
from benchmarks.harness.torch_meeting import gather, join
from benchmarks.optimizers.job import DDP, Job, Trained, Trial
from benchmarks.optimizers.model import CharacterModel, Text, loss, read_text
from benchmarks.optimizers.own import OWN, frozen_after, schedule
from benchmarks.optimizers.trial_optimizers import plain, synchronizing

#: Deadline of waits (seconds), generous because other work may delay a rank.
_TIMEOUT = 300.0


class ReplicasDiffer(Exception):
    """The ranks' parameters differ after a training, so it has no result."""


def _train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    text: Text,
    job: Job,
    sent: Callable[[], int] | None = None,
    rates: torch.optim.lr_scheduler.LambdaLR | None = None,
) -> list[int]:
    """Trains, and ends early, on all ranks in the same step, if the loss is not finite. Returns the results of `sent()`
    before each step."""
    generator = torch.Generator().manual_seed(1000 * job.seed + dist.get_rank())
    before = []
    for _ in range(job.steps):
        before.append(0 if sent is None else sent())
        optimizer.zero_grad()
        loss(model, text.batch(job.sequences, generator)).backward()
        optimizer.step()
        if rates is not None:
            rates.step()
        if not all(parameter.isfinite().all() for parameter in model.parameters()):
            break
    return before


def _trained(trial: Trial, text: Text, job: Job) -> Trained:
    torch.manual_seed(job.seed)  # the same initial weights on all ranks and in all trials
    model = CharacterModel(text.characters)
    sent = frozen = None
    if trial.system == DDP:
        # One bucket gives all trainings the same order of reduction; otherwise it would depend on the machine's first
        # steps.
        _train(DistributedDataParallel(model), plain(trial, model), text, job)
    else:
        import hipress.torch as hp

        def sent_bytes() -> int:
            return int(hp.counters()["bytes_sent"])

        with hipress_session(_TIMEOUT), warnings.catch_warnings():
            warnings.simplefilter("ignore", hp.CodecWarning)  # the benchmark is about these codecs
            optimizer = synchronizing(trial, model, job.steps)
            rates = schedule(trial.system, optimizer, job.steps)
            counts = [*_train(model, optimizer, text, job, sent_bytes, rates), sent_bytes()]
            sent = max(gather(counts[-1] - counts[0])) // job.steps
            first = frozen_after(job.steps)
            if trial.system in OWN and OWN[trial.system].frozen and first + 1 < len(counts):
                frozen = max(gather(counts[-1] - counts[first])) // (len(counts) - 1 - first)
    digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).digest()
    if len(set(gather(digest))) > 1:
        raise ReplicasDiffer(f"after {trial}")
    with torch.no_grad():
        judged = loss(model, text.judged).item()
    parameters = sum(each.numel() for each in model.parameters())
    return Trained(judged if math.isfinite(judged) else None, sent, parameters, frozen)


def main() -> None:
    """Runs the trainings of the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    join(_TIMEOUT, job.gloo_port)
    text = read_text(job.text)
    results = []
    for trial in job.trials:
        start = time.monotonic()
        results.append(_trained(trial, text, job))
        gc.collect()
        if dist.get_rank() == 0:
            print(
                f"{trial.system}, {trial.name}: {results[-1].loss} ({time.monotonic() - start:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
    if dist.get_rank() == 0:
        Path(job.result).write_text(json.dumps([dataclasses.asdict(one) for one in results]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
