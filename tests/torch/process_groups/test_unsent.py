# SPDX-License-Identifier: Apache-2.0
"""A job that goes on with another codec, or without one, pays back what the earlier codec held back, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hipress.errors import InvalidArgument
from hipress.torch import ddp
from hipress.torch.process_groups import BackendOptions, CompressingGroup, GroupAverage, GroupOptions, gradients
from hipress.torch.process_groups.dtypes import TensorShape
from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.process_groups import unsent
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


@training.in_process_group
def _go_on(rank: int, world: int, topology: str, codecs: list[str], on_gpu: bool) -> None:
    for codec in codecs:
        unsent.go_on(rank, world, topology, codec, FakeGpuSide if on_gpu else None)


@pytest.mark.parametrize(
    ("topology", "world", "codecs", "on_gpu"),
    [
        ("ps", 2, ["onebit"], False),
        thorough("ps", 2, ["thc", "powersgd(min_ratio=1)"], False),
        thorough("ps", 2, ["onebit"], True),
        ("allgather", 2, ["onebit"], False),
        ("hierarchical", 4, ["onebit"], False),
    ],
)
def test_no_residual_is_lost_with_another_codec(
    tmp_path: Path, topology: str, world: int, codecs: list[str], on_gpu: bool
) -> None:
    run(_go_on, world, str(tmp_path), world, topology, codecs, on_gpu)


#: Codecs and topologies, of which each goes on with what the ones before held back.
CHANGES = [
    ("onebit", "ps"),
    ("onebit", "allgather"),
    ("topk(ratio=0.1)", "ring"),
    ("int4", "hierarchical"),
    ("int4", "ps"),
    ("none", "ps"),
]


@training.in_process_group
def _changes(rank: int, on_gpu: bool) -> list[float]:
    """What the averages lack of the exact ones after the steps with each codec and topology."""
    shapes = {name: TensorShape(count, torch.float32, 2) for name, count in (("many", 70_001), ("few", 3000))}
    total = {name: torch.zeros(shape.count) for name, shape in shapes.items()}
    average: GroupAverage | None = None
    lacking, step = [], 0
    torch.manual_seed(0)
    for codec, topology in CHANGES:
        hosts = 2 if topology == "hierarchical" else 0
        options = GroupOptions(codec=codec, topology=topology, ranks_per_host=hosts)
        if average is None:
            average = GroupAverage(shapes, None, options, side=FakeGpuSide() if on_gpu else None)
        else:
            average.change(options)
        for _ in range(3):
            each = [{name: torch.randn(shape.count) for name, shape in shapes.items()} for _ in range(4)]
            tensors = {name: values.clone() for name, values in each[rank].items()}
            average.start(list(tensors.items()), step).wait()
            average._side.synchronize()
            for name, into in total.items():
                into += tensors[name] - sum(values[name] for values in each) / 4
            step += 1
        lacking.append(max(float(values.abs().max()) for values in total.values()))
        with pytest.raises(InvalidArgument, match="twobit"):
            average.change(GroupOptions(codec="twobit"))
    return lacking


@pytest.mark.parametrize("on_gpu", [False, True], ids=["processor", "GPU"])
def test_no_residual_is_lost_when_codec_and_topology_change_in_training(tmp_path: Path, on_gpu: bool) -> None:
    for *before, after in run(_changes, 4, str(tmp_path), on_gpu):
        assert min(before) > 0.1
        assert after < 1e-4


@training.in_process_group
def _special(rank: int) -> None:
    unsent.absent(rank, 2)
    unsent.change_some(rank, 2)


def test_tensors_without_gradients_wait_and_owners_may_change(tmp_path: Path) -> None:
    run(_special, 2, str(tmp_path))


@training.in_process_group
def _four(rank: int, codec: str, topology: str) -> Any:
    return unsent.held_back(rank, 4, codec, topology)


@training.in_process_group
def _two(rank: int, states: list[dict[str, Any]], codec: str, topology: str) -> Any:
    return unsent.with_fewer_ranks(rank, states, codec, topology)


@pytest.mark.parametrize(
    ("before", "after", "topology"),
    [
        ("onebit", "none", "ps"),
        ("onebit", "none", "hierarchical"),
        ("thc", "fp16", "ps"),
        ("topk", "none", "allgather"),
    ],
)
def test_fewer_ranks_with_another_codec_get_all_of_it(tmp_path: Path, before: str, after: str, topology: str) -> None:
    for each in ("four", "two"):
        (tmp_path / each).mkdir()
    saved = run(_four, 4, str(tmp_path / "four"), before, topology)
    got = run(_two, 2, str(tmp_path / "two"), [states for states, _ in saved], after, topology)
    for name, lacking in saved[0][1].items():
        assert np.abs(lacking).max() > 0.1
        np.testing.assert_allclose(got[0][name], lacking, atol=unsent.ONCE[after])


@training.in_process_group
def _hook(rank: int, codec: str, after: dict[str, Any]) -> tuple[float, float]:
    """The hook's gradients of a model whose parameters stay: their sum over steps."""
    torch.manual_seed(0)
    net = training.Net()
    model = DistributedDataParallel(net, bucket_cap_mb=0.1)
    state = ddp.compress(model, codec)
    exact = training.Net()
    exact.load_state_dict(net.state_dict())
    plain = DistributedDataParallel(exact)
    total = [torch.zeros_like(each) for each in net.parameters()]

    def step(number: int) -> None:
        for each, sign in ((model, 1), (plain, -1)):
            inputs, targets = training.batch(rank, number)
            each.zero_grad()
            (each(inputs) - targets).square().mean().backward()
            for into, parameter in zip(total, each.parameters(), strict=True):
                into.add_(parameter.grad, alpha=sign)

    for number in range(3):
        step(number)
    held_back = max(float(each.abs().max()) for each in total)
    saved = state.state_dict()
    other = DistributedDataParallel(net, bucket_cap_mb=0.1)
    model = other
    state = ddp.compress(other, **after)
    state.load_state_dict(saved)
    for number in range(3, 6):
        step(number)
    return held_back, max(float(each.abs().max()) for each in total)


@pytest.mark.parametrize("after", [{"codec": "none"}, {"codec": "onebit", "codec_for": "all none"}])
def test_the_hook_pays_back_exactly(tmp_path: Path, after: dict[str, Any]) -> None:
    if "codec_for" in after:
        after = {**after, "codec_for": {name: "none" for name, _ in training.Net().named_parameters()}}
    for held_back, left in run(_hook, 2, str(tmp_path), "onebit", after):
        assert held_back > 1e-3
        assert left < 1e-3 * held_back


@training.in_process_group
def _backend(rank: int) -> tuple[float, float]:
    total = torch.zeros(5000)

    def step(group: CompressingGroup, number: int, *, poison: bool = False) -> None:
        each = [torch.randn(5000, generator=torch.Generator().manual_seed(10 * number + one)) for one in range(2)]
        mine = each[rank].clone()
        if poison and rank == 1:
            mine[3] = float("nan")
        with gradients("g"):
            dist.all_reduce(mine, group=group)
        if not poison:
            total.add_(mine).sub_(each[0] + each[1])

    groups = [dist.new_group(backend="hipress", pg_options=BackendOptions(codec)) for codec in ("onebit", "none")]
    before, after = (each for each in groups if isinstance(each, CompressingGroup))
    for number in range(3):
        step(before, number)
    held_back = float(total.abs().max())
    after.load_state_dict(before.state_dict())
    step(after, 7, poison=True)
    for number in range(3, 6):
        step(after, number)
    return held_back, float(total.abs().max())


def test_the_backend_pays_back_exactly(tmp_path: Path) -> None:
    for held_back, left in run(_backend, 2, str(tmp_path)):
        assert held_back > 0.1
        assert left < 1e-4
