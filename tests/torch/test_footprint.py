# SPDX-License-Identifier: Apache-2.0
"""An idle rank uses no processor time, a training's memory does not grow with its steps, and importing is quick."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import pytest
import torch

import hipress.torch as hp
from tests.torch.models import loss, mlp
from tests.torch.ranks import end, run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def processes_of_their_own() -> None:
    """Ends the processes of other tests: their Gloo groups may have left threads that wake up a hundred times a
    second."""
    end()


def _idle(seconds: float, times: int) -> float:
    """The least share of a core in `times` intervals, because other processes of a busy machine only increase the
    share."""
    hp.init()
    hp.allreduce(torch.ones(100_000))
    shares = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_SELF)
        time.sleep(seconds)
        after = resource.getrusage(resource.RUSAGE_SELF)
        shares.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds)
    hp.allreduce(torch.ones(1))
    return min(shares)


@pytest.mark.thorough
def test_an_idle_rank_uses_under_one_percent_of_a_core() -> None:
    assert max(run(_idle, 4, 3.0, 6)) < 0.01


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _many_steps(steps: int) -> tuple[int, int]:
    hp.init()
    model = mlp(hidden=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    # The codec compresses the weights, and the biases travel as they are.
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec="onebit", min_compress_bytes=1024)
    first = 0
    for step in range(steps):
        optimizer.zero_grad()
        loss(model, hp.rank(), step % 7).backward()
        optimizer.step()
        if step % 10 == 0:
            hp.allreduce(torch.tensor([float(step)]))  # a metric, which training loops average
        if step == steps // 10:
            first = _resident()
    return first, _resident()


@pytest.mark.thorough
def test_ten_thousand_steps_do_not_grow_memory() -> None:
    for first, last in run(_many_steps, 2, 10_000):
        assert last < first * 1.01


#: Modules of torch that take about a second each to import.
_SLOW = ("torch.distributed.fsdp", "torch.distributed.tensor", "torch.distributed.checkpoint", "torch._dynamo", "sympy")


def test_slow_modules_of_torch_are_left_to_those_who_use_them() -> None:
    program = f"import sys, hipress.torch; print([name for name in {_SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"
