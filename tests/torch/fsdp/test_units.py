# SPDX-License-Identifier: Apache-2.0
"""The units of FSDP2 are found at any time and below wrappers, and a unit that does not run keeps its residual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from hipress.torch import fsdp
from hipress.torch.process_groups import BackendOptions
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _mesh(hybrid: bool = False) -> Any:
    backend = {"rep": ("hipress", BackendOptions("onebit"))} if hybrid else {}
    names = ("rep", "shard")
    return init_device_mesh("cpu", (2, 1), mesh_dim_names=names, backend_override=backend or None)


def _net(mesh: Any) -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(40, 200), nn.Linear(200, 40), nn.Linear(40, 50))
    fully_shard(net[0], mesh=mesh)
    return fully_shard(net, mesh=mesh)


def _step(model: nn.Module, rank: int, step: int) -> None:
    model(training.batch(rank, step)[0]).square().mean().backward()


def _whole(net: nn.Module) -> bytes:
    return b"".join(each.grad.to_local().numpy().tobytes() for each in net.parameters())


class _FabricModule(nn.Module):
    """As Lightning Fabric wraps a model."""

    def __init__(self, forward_module: nn.Module) -> None:
        super().__init__()
        self._forward_module = forward_module

    def forward(self, inputs: torch.Tensor) -> Any:
        return self._forward_module(inputs)


@training.in_process_group
def _found(rank: int) -> None:
    names = ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"]
    mesh = _mesh()
    wanted = None
    with torch.compiler.set_stance("force_eager"):
        for how in ("at once", "after a forward pass", "compiled", "fabric"):
            net = _net(mesh["shard"])
            model: nn.Module = net
            if how == "after a forward pass":
                with torch.no_grad():
                    net(torch.ones(1, 40))
            elif how == "compiled":
                model = torch.compile(net, backend="eager")
            elif how == "fabric":
                model = _FabricModule(net)
            state = fsdp.compress_replicas(
                model, mesh["rep"].get_group(), "onebit", codec_for={"2.weight": "int8", "0.bias": "fp16"}
            )
            assert sorted(state._running()._routes.shapes) == sorted(names), how
            _step(model, rank, 0)
            wanted = _whole(net) if wanted is None else wanted
            assert _whole(net) == wanted, how
    net = _net(init_device_mesh("cpu", (2,)))
    net(torch.ones(1, 40))
    fsdp.compress_reduce_scatter(net, "fp16", codec_for={"2.weight": "int8"})
    _step(net, rank, 0)


def test_units_are_found_after_a_forward_pass_and_below_wrappers(tmp_path: Path) -> None:
    run(_found, 2, str(tmp_path))


class _Branches(nn.Module):
    def __init__(self, mesh: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(40, 200), nn.Linear(40, 200)
        fully_shard(self.a, mesh=mesh)
        fully_shard(self.b, mesh=mesh)

    def forward(self, inputs: torch.Tensor, branch: str) -> Any:
        return getattr(self, branch)(inputs)


def _residuals(state: Any, branch: str) -> dict[str, Any]:
    saved = state.state_dict()
    states = saved["states"] if "states" in saved else saved["groups"][0]["states"]
    return {key: each["residual"].copy() for key, each in states.items() if key.startswith(f"{branch}.")}


@training.in_process_group
def _branches(rank: int, how: str) -> None:
    mesh = _mesh(how == "hybrid")
    over = mesh if how == "hybrid" else mesh["shard"]
    net = fully_shard(_Branches(over), mesh=over)
    state = (
        fsdp.compress_hybrid(net) if how == "hybrid" else fsdp.compress_replicas(net, mesh["rep"].get_group(), "onebit")
    )

    def step(number: int, branch: str) -> None:
        net.zero_grad()
        net(training.batch(rank, number)[0], branch).square().mean().backward()

    step(0, "a")
    kept = _residuals(state, "a")
    assert kept
    assert any(np.abs(each).max() > 0 for each in kept.values())
    for number in range(1, 4):
        step(number, "b")
        assert net.a.weight.grad is None
        for key, values in _residuals(state, "a").items():
            np.testing.assert_array_equal(values, kept[key])
    # The next step of a pays it back: what was kept and the gradient are what is sent and what is kept then.
    step(4, "a")
    own = fully_shard(_Branches(mesh["shard"]), mesh=mesh["shard"])
    own(training.batch(rank, 4)[0], "a").square().mean().backward()
    exact = own.a.weight.grad.to_local().clone()
    dist.all_reduce(exact)
    exact /= 2
    total = net.a.weight.grad.to_local().flatten().double()
    for sign, kept_then in ((1, _residuals(state, "a")), (-1, kept)):
        gathered: list[Any] = [None, None]
        dist.all_gather_object(gathered, kept_then)
        for each in gathered:
            for key, values in each.items():
                _, role, first, count = key.split("\n")
                part = slice(int(first), int(first) + int(count))
                total[part] += sign * torch.from_numpy(values).double() / (2 if role == "worker" else 1)
    torch.testing.assert_close(total, exact.flatten().double(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", ["replicas", "hybrid"])
def test_a_unit_that_no_rank_runs_keeps_its_residual_until_it_runs_again(tmp_path: Path, how: str) -> None:
    run(_branches, 2, str(tmp_path), how)
