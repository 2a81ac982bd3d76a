# SPDX-License-Identifier: Apache-2.0
"""A warm-up goes on from the step at which the job was saved, in every way in that has one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp, fsdp
from hipress.torch.process_groups import BackendOptions, gradients
from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: The bytes that a rank sends of the model in one step, over the engine: without a codec and with onebit.
RAW, ONE_BIT = 1_050_720, 34_976


class _Job:
    """One model with one way in; counts the bytes of each step."""

    def __init__(self, way: str, warmup: Any, codec: str, group: Any) -> None:
        torch.manual_seed(0)
        self.net: nn.Module = nn.Sequential(nn.Linear(512, 512))
        self._group, self._engine = group, way in ("DistributedOptimizer", "ddp hipress")
        if way == "fsdp":
            self.net = fully_shard(self.net, mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))["b"])
        self.optimizer: Any = torch.optim.SGD(self.net.parameters(), lr=0.01)
        self.state: Any = None
        self._model = self.net
        if way == "DistributedOptimizer":
            self.optimizer = hp.DistributedOptimizer(
                self.optimizer, self.net.named_parameters(), codec=codec, warmup=warmup
            )
        elif way.startswith("ddp"):
            self._model = DistributedDataParallel(self.net)
            self.state = ddp.compress(self._model, codec, warmup=warmup, carrier=way.split()[1])  # type: ignore
        elif way == "fsdp":
            self.state = fsdp.compress_replicas(self.net, group, codec, warmup=warmup)  # type: ignore[arg-type]
        else:
            self.state = dist.new_group(backend="hipress", pg_options=BackendOptions(codec, warmup=warmup))
            self._group = self.state

    def step(self, step: int) -> int:
        before = self._sent()
        inputs = torch.randn(4, 512, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
        self.optimizer.zero_grad()
        self._model(inputs).square().mean().backward()
        if isinstance(self.state, dist.ProcessGroup):
            with gradients("weight"):
                dist.all_reduce(self.net[0].weight.grad, op=dist.ReduceOp.AVG, group=self._group)  # type: ignore
        self.optimizer.step()
        return self._sent() - before

    def _sent(self) -> int:
        return int(hp.counters()["bytes_sent"] if self._engine else self.state.sent_bytes)

    def save(self) -> bytes:
        file = io.BytesIO()
        codecs = hp.codec_states(self.optimizer, exact=True) if self.state is None else self.state.state_dict()
        torch.save({"net": self.parameters(), "codecs": codecs}, file)
        return file.getvalue()

    def load(self, saved_bytes: bytes) -> None:
        saved = torch.load(io.BytesIO(saved_bytes), weights_only=False)
        with torch.no_grad():
            for mine, values in zip(self.net.parameters(), saved["net"], strict=True):
                getattr(mine, "_local_tensor", mine).copy_(torch.from_numpy(values))
        if self.state is None:
            hp.load_codec_states(self.optimizer, saved["codecs"])
        else:
            self.state.load_state_dict(saved["codecs"])

    def parameters(self) -> list[np.ndarray[Any, Any]]:
        whole = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in self.net.parameters()]
        return [each.detach().numpy().copy() for each in whole]


@training.in_process_group
def _trained(_rank: int, way: str, warmup: Any, codec: str, saved: list[tuple[int, list[bytes]]], steps: int) -> Any:
    """Loads each of the saved states and trains from there. Returns the bytes of each step, the states before each
    step, and the last parameters."""
    if way in ("DistributedOptimizer", "ddp hipress"):
        hp.init()
    job = _Job(way, warmup, codec, dist.new_group([0, 1]))
    first = 0
    for first, states in saved:  # noqa: B007  (the last one counts)
        job.load(states[dist.get_rank()])
    sent, states = [], []
    for step in range(first, steps):
        states.append(job.save())
        sent.append(job.step(step))
    job.load(states[0])
    again = [job.step(step) for step in range(first, steps)]
    assert again == sent, "an early state that a running job loads"
    return sent, states, job.parameters()


def _check(folder: Path, way: str, warmup: Any, codec: str, saved_at: list[int], steps: int) -> list[int]:
    """Trains without a pause, and resumed from the state before each of the steps `saved_at`."""

    def trained(name: str, saved: list[tuple[int, list[bytes]]]) -> Any:
        (folder / name).mkdir()
        return run(_trained, 2, str(folder / name), way, warmup, codec, saved, steps)

    straight = trained("straight", [])
    states = [(at, [of_rank[at] for _, of_rank, _ in straight]) for at in range(steps)]
    for at in saved_at:
        # The last one loads two states, one after the other.
        resumed = trained(str(at), [states[0], states[at]] if at == saved_at[-1] else [states[at]])
        for (sent, _, parameters), (sent_after, _, parameters_after) in zip(straight, resumed, strict=True):
            assert sent_after == sent[at:]
            assert all(np.array_equal(*both) for both in zip(parameters, parameters_after, strict=True))
    sent_by_rank_0: list[int] = straight[0][0]
    return sent_by_rank_0


@pytest.mark.parametrize("way", ["DistributedOptimizer", "ddp group", "ddp hipress", "fsdp", "backend"])
def test_the_warm_up_goes_on_where_the_job_was_saved(tmp_path: Path, way: str) -> None:
    # In the middle of the warm-up, at its end, and after it.
    sent = _check(tmp_path, way, 3, "onebit", [1, 3, 5], 7)
    assert sent[0] == sent[2] != sent[3] == sent[6]
    if way in ("DistributedOptimizer", "ddp hipress"):
        assert (sent[2], sent[3]) == (RAW, ONE_BIT)


@pytest.mark.parametrize("way", [thorough("DistributedOptimizer"), "ddp group", thorough("ddp hipress")])
def test_each_stage_goes_on_where_the_job_was_saved(tmp_path: Path, way: str) -> None:
    sent = _check(tmp_path, way, hp.Warmup(4, ratios=(0.4, 0.1)), "topk(ratio=0.02)", [1, 2, 3], 6)
    assert sent[1] > 2 * sent[2] > 4 * sent[4]


def _older(count: int) -> list[int]:
    """The bytes of the steps after states without a number of steps, as an earlier version saved them."""
    hp.init()
    model = nn.Linear(512, 512)
    sent = []
    states: dict[str, torch.Tensor] = {}
    for resumed in (False, True):
        optimizer = hp.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters(), codec="onebit", warmup=3
        )
        if resumed:
            hp.load_codec_states(optimizer, states)
        for _ in range(count):
            before = hp.counters()["bytes_sent"]
            optimizer.zero_grad()
            model(torch.ones(2, 512)).sum().backward()
            optimizer.step()
            sent.append(hp.counters()["bytes_sent"] - before)
        states = hp.codec_states(optimizer, exact=True)
        assert states["hipress"].tolist()[3] == count * (1 + resumed)
        states["hipress"] = states["hipress"][:3]
        del states["hipress:sum"]
    return sent[count:]


def test_states_of_earlier_versions_count_the_averages_of_a_tensor() -> None:
    assert run(_older, 2, 2) == [[RAW, ONE_BIT]] * 2
