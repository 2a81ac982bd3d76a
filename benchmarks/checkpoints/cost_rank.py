# SPDX-License-Identifier: Apache-2.0
"""One rank of checkpoint_cost.py: it takes the codec states of one model in turn with copies of the same bytes.

Rank 0 times. The other ranks wait meanwhile, and take part where the ranks exchange values.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
import hipress.torch.ddp
from benchmarks.checkpoints.cost_job import COPY, HOOK, MEAN, OWN, CostJob, Times
from benchmarks.harness.hipress_session import hipress_session
from benchmarks.harness.torch_meeting import join
from benchmarks.harness.turns import order
from benchmarks.models import load

#: Deadline of waits (seconds), generous because other work may delay a rank.
_TIMEOUT = 300.0
#: Steps before the states are taken: codecs have states after the first one.
_STEPS = 2
#: Turns that are not timed: the first ones take memory from the machine.
_WARM_UPS = 2


class _Model(nn.Module):
    """The parameters of a model without its layers. The gradient of a parameter is the parameter."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.every = nn.ParameterList(nn.Parameter(torch.randn(each.shape)) for each in load(model).gradients)

    def forward(self) -> torch.Tensor:
        return torch.stack([each.square().sum() for each in self.every]).sum() / 2


def _of_optimizer(model: _Model, codec: str) -> dict[str, Callable[[], Any]]:
    """The ways to take states from DistributedOptimizer, after a few steps of a training."""
    plain = torch.optim.SGD(model.parameters(), lr=1e-3)
    optimizer = hp.DistributedOptimizer(plain, model.named_parameters(), codec=codec)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        model().backward()
        optimizer.step()
    return {OWN: lambda: hp.codec_states(optimizer, exact=True), MEAN: lambda: hp.codec_states(optimizer)}


def _of_hook(model: _Model, codec: str) -> dict[str, Callable[[], Any]]:
    """The way to take states from DistributedDataParallel's hook over the model's process group."""
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    state = hipress.torch.ddp.compress(wrapped, codec)
    for _ in range(_STEPS):
        wrapped.zero_grad()
        wrapped().backward()
    return {OWN: state.state_dict}


def _tensors(states: Any) -> Iterator[torch.Tensor]:
    """All tensors of a dict of dicts of tensors."""
    if isinstance(states, torch.Tensor):
        yield states
    elif isinstance(states, Mapping):
        for each in states.values():
            yield from _tensors(each)


def _measured(ways: dict[str, Callable[[], Any]], repeats: int) -> tuple[int, dict[str, Times]]:
    """The bytes of the states of rank 0, and the times of each way and of the copy."""
    source = list(_tensors(ways[OWN]()))
    timed = {**ways, COPY: lambda: [each.clone() for each in source]}
    names, times = list(timed), {name: Times([], []) for name in timed}
    for turn in range(_WARM_UPS + repeats):
        for index in order(turn, len(names)):
            name = names[index]
            dist.barrier()
            if name != MEAN and dist.get_rank() != 0:
                continue
            seconds, processor = time.perf_counter(), time.process_time()
            taken = timed[name]()
            processor, seconds = time.process_time() - processor, time.perf_counter() - seconds
            del taken
            if turn >= _WARM_UPS:
                times[name].seconds.append(seconds)
                times[name].cpu_seconds.append(processor)
    return sum(each.nbytes for each in source), times


def main() -> None:
    """Measures what the job in the only argument asks for."""
    job = CostJob.from_json(sys.argv[1])
    join(_TIMEOUT, job.gloo_port)
    torch.manual_seed(dist.get_rank())
    with hipress_session(_TIMEOUT), warnings.catch_warnings():
        warnings.simplefilter("ignore", hp.CodecWarning)  # dgc's momentum beside an optimizer does not matter here
        make = _of_hook if job.way == HOOK else _of_optimizer
        size, times = _measured(make(_Model(job.model), job.codec), job.repeats)
        gc.collect()
    if dist.get_rank() == 0:
        answer = {"bytes": size, "times": {name: dataclasses.asdict(each) for name, each in times.items()}}
        Path(job.result).write_text(json.dumps(answer))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
