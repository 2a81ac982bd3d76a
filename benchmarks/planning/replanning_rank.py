# SPDX-License-Identifier: Apache-2.0
"""One rank of replanning.py: a training with plan="auto" whose backward only waits.

The gradients of a step are random values of the rank, multiplied by a number of the step. So the rank can compute at
any time the part of the averages that is still missing.
"""

from __future__ import annotations

import hashlib
import math
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch

import hipress.torch as hp
from benchmarks.harness.simulated_training import scaled
from benchmarks.models import load
from benchmarks.planning.replanning_job import Answer, Job, Step
from hipress import runtime
from hipress.secopa.online.automatic import AutomaticOptions

#: Number of steps with a plan before the rate changes, after the new plan, and after the change without a new plan.
_SETTLED, _AFTER, _AT_MOST = 30, 30, 120
_FLUSHING = 3
#: The missing part is computed for one of this many compressible gradients.
_ONE_IN = 4


class _Waits(torch.autograd.Function):
    """An operation whose backward waits, and returns given values as the gradient."""

    @staticmethod
    def forward(ctx: Any, chain: torch.Tensor, parameter: torch.Tensor, seconds: float, values: torch.Tensor) -> Any:
        ctx.seconds, ctx.values = seconds, values
        return chain.clone()

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> Any:
        if ctx.seconds > 0:
            time.sleep(ctx.seconds)
        return outputs[0], ctx.values, None, None


class Training:
    """A training with the gradients of a model."""

    def __init__(self, job: Job) -> None:
        model = scaled(load(job.model), job.backward_s)
        order = sorted(range(len(model.gradients)), key=lambda index: model.gradients[index].ready_s)
        ready = [0.0, *(model.gradients[index].ready_s for index in order)]
        #: Seconds of backward for each gradient, in the order of forward.
        self._waits = [(index, ready[place + 1] - ready[place]) for place, index in enumerate(order)]
        self._names = [one.name for one in model.gradients]
        self._parameters = [torch.nn.Parameter(torch.zeros(one.shape)) for one in model.gradients]
        self._values = [self._random(index, hp.rank()) for index in range(len(self._names))]
        compressible = [
            index
            for index, parameter in enumerate(self._parameters)
            if 4 * parameter.numel() >= AutomaticOptions.min_compress_bytes
        ]
        self._watched = compressible[::_ONE_IN]
        self._means = {
            index: sum(self._random(index, rank) for rank in range(hp.size())) / hp.size() for index in self._watched
        }
        self._lacking = {index: torch.zeros_like(self._values[index]) for index in self._watched}
        self.optimizer = hp.DistributedOptimizer(
            torch.optim.SGD(self._parameters, lr=0.1),
            zip(self._names, self._parameters, strict=True),
            plan=AutomaticOptions(codecs=tuple(job.codecs), profile_s=job.profile_s),
        )
        self._number = 0

    def _random(self, index: int, rank: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(1000 * index + rank)
        return torch.randn(self._parameters[index].shape, generator=generator)

    def step(self) -> float:
        """Seconds of a step, from the start of backward to the update of the parameters."""
        # Numbers of both signs keep residuals small; different numbers keep the gradients from cancelling out.
        factor = math.sin(1 + 7 * self._number)
        self._number += 1
        values = [factor * one for one in self._values]
        chain = torch.zeros((), requires_grad=True)
        for index, seconds in reversed(self._waits):
            chain = _Waits.apply(chain, self._parameters[index], seconds, values[index])
        self.optimizer.zero_grad()
        start = time.perf_counter()
        chain.backward()
        self.optimizer.step()
        seconds = time.perf_counter() - start
        for index in self._watched:
            gradient = self._parameters[index].grad
            assert gradient is not None
            self._lacking[index] += factor * self._means[index] - gradient
        return seconds

    def lacking(self) -> float:
        """The missing part, relative to the largest average of a step."""
        largest = max(float(each.abs().max()) for each in self._means.values())
        return max(float(each.abs().max()) for each in self._lacking.values()) / largest

    def fingerprint(self) -> str:
        """A hash of the parameters."""
        digest = hashlib.sha256()
        for parameter in self._parameters:
            digest.update(parameter.detach().numpy())
        return digest.hexdigest()

    @property
    def gradients(self) -> int:
        return len(self._names)


def train(job: Job) -> Answer:
    """Trains until the ranks have followed a plan for the second rate for a while. Rank 0 has the complete answer."""
    training = Training(job)
    steps: list[Step] = []
    followed, since_change, with_new = 0, 0, 0
    at_change = ""
    while with_new < _AFTER and since_change < _AT_MOST:
        if followed == _SETTLED and hp.rank() == 0:
            job.settled.touch()
        # Rank 0 checks the file and tells all ranks, so that all change in the same step.
        changed = bool(hp.broadcast_object(job.changed.exists(), root_rank=0))
        plan = training.optimizer._hipress.planning.plan
        fingerprint = "" if plan is None else plan.fingerprint()
        compressed = 0 if plan is None else sum(choice.compressed for choice in plan.choices())
        sent = runtime.counters()["bytes_sent"]
        seconds = training.step()
        steps.append(Step(seconds, fingerprint, compressed, runtime.counters()["bytes_sent"] - sent, changed))
        if changed:
            at_change = at_change or fingerprint
            since_change += 1
            with_new += fingerprint != at_change
        elif fingerprint:
            followed += 1
    before = training.lacking()
    training.optimizer.set_plan(None)  # without codecs the residuals are sent
    for _ in range(_FLUSHING):
        training.step()
    every = hp.allgather_object((steps, training.fingerprint(), before, training.lacking()))
    plans = {tuple(step.plan for step in one) for one, *_ in every}
    slowest = [
        Step(
            max(step.seconds for step in ranks),
            ranks[0].plan,
            ranks[0].compressed,
            ranks[0].bytes_sent,
            ranks[0].changed,
        )
        for ranks in zip(*(one for one, *_ in every), strict=True)
    ]
    return Answer(
        training.gradients,
        slowest,
        len(plans) == 1 and len({digest for _, digest, *_ in every}) == 1,
        max(one[2] for one in every),
        max(one[3] for one in every),
    )


def main() -> None:
    """Trains as the only argument says."""
    job = Job.from_json(sys.argv[1])
    torch.set_num_threads(1)
    hp.init()
    answer = train(job)
    if hp.rank() == 0:
        Path(job.result).write_text(answer.to_json())
    hp.shutdown()


if __name__ == "__main__":
    main()
