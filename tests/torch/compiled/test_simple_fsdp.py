# SPDX-License-Identifier: Apache-2.0
"""A model that is sharded as torchtitan's SimpleFSDP does it: its compiled reduce-scatters give the bits of FSDP2 with
hipress.torch.fsdp.compress_reduce_scatter()."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
import torch._inductor.config
from torch import nn
from torch._functorch.aot_autograd import aot_compile_joint_with_descriptors, aot_export_joint_with_descriptors
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.nn.utils import parametrize

from hipress.torch import fsdp
from hipress.torch.compiled import GraphPass, compress_graph, compress_group
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


class _Whole(nn.Module):
    """A parameter's shards become the parameter; backward, its gradient becomes shards of the average."""

    def forward(self, shard: Any) -> torch.Tensor:
        return shard.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial("avg")])


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(40, 300), nn.ReLU(), nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 2))


def _simple_fsdp(net: nn.Module, mesh: Any) -> nn.Module:
    for module in list(net.modules()):
        for name, parameter in list(module.named_parameters(recurse=False)):
            shards = distribute_tensor(parameter.detach(), mesh, [Shard(0)])
            setattr(module, name, nn.Parameter(shards))
            parametrize.register_parametrization(module, name, _Whole(), unsafe=True)
    return net


def _train(net: nn.Module, step_of: Any, rank: int) -> bytes:
    for step in range(4):
        # TorchInductor adds more than two values in another order than torch does.
        inputs, wanted = (each[:2] for each in training.batch(rank, step))
        net.zero_grad()
        step_of(inputs, wanted).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.sub_(parameter.grad, alpha=0.05)
    return b"".join(each.full_tensor().detach().numpy().tobytes() for each in net.parameters())


@training.in_process_group
def _both(rank: int, codec: str) -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (2,))
    eager = fully_shard(_net(), mesh=mesh)
    state = fsdp.compress_reduce_scatter(eager, codec)
    of_fsdp2 = _train(eager, lambda inputs, wanted: (eager(inputs) - wanted).square().mean(), rank)
    sent_by_fsdp2 = state.sent_bytes
    state.close()
    graph_pass = GraphPass()
    compressed = compress_group(mesh.get_group(), codec)
    torch._dynamo.reset()
    with torch._inductor.config.patch(post_grad_custom_post_pass=graph_pass):
        net = _simple_fsdp(_net(), mesh)

        @torch.compile
        def step_of(inputs: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
            return (net(inputs) - wanted).square().mean()

        compiled = _train(net, step_of, rank)
    torch._dynamo.reset()
    sent = compressed.sent_bytes
    compressed.close()
    return {"bits": (of_fsdp2, compiled), "reports": graph_pass.reports, "sent": (sent_by_fsdp2, sent)}


@pytest.mark.parametrize("codec", ["int8"])
def test_simple_fsdp_trains_to_the_bits_of_fsdp2(tmp_path: Path, codec: str) -> None:
    for rank in run(_both, 2, str(tmp_path), codec):
        (report,) = rank["reports"]
        assert [each.operator for each in report.replaced] == ["hipress.reduce_scatter.default"] * 2
        assert len(report.kept) == 4, "three biases, and a small matrix"
        np.testing.assert_array_equal(*(np.frombuffer(each, np.float32) for each in rank["bits"]))
        assert rank["sent"][0] == rank["sent"][1] > 0


@training.in_process_group
def _joint(rank: int) -> Any:
    """A joint graph, as torchtitan's graph trainer has one: the report and the first gradients, compressed and not."""
    mesh = init_device_mesh("cpu", (2,))
    compressed = compress_group(mesh.get_group(), "terngrad")
    inputs, _ = training.batch(rank, 0)
    results = []
    for compresses in (True, False):
        net = _simple_fsdp(_net(), mesh)
        with contextlib.ExitStack() as stack:
            joint = aot_export_joint_with_descriptors(stack, net, (inputs,))
            report = compress_graph(joint.graph_module) if compresses else None
            run_graph = aot_compile_joint_with_descriptors(joint)
        run_graph(*net.parameters(), inputs).sum().backward()
        results.append((report, [each.grad.to_local().numpy() for each in net.parameters()]))
    compressed.close()
    return results


def _of_parametrization(name: str) -> str:
    module, parameter = name.rsplit(".", 1)
    return f"{module}.parametrizations.{parameter}.original"


def test_a_joint_graph_names_reductions_after_its_parameters(tmp_path: Path) -> None:
    for (report, gradients), (_, exact) in run(_joint, 2, str(tmp_path)):
        parameters = ["0.weight", "2.weight"]
        wanted = sorted((_of_parametrization(each),) for each in parameters)
        assert sorted(each.names for each in report.replaced) == wanted
        for compressed, plain in zip(gradients, exact, strict=True):
            assert np.abs(compressed - plain).max() <= np.abs(plain).max()
        assert any((compressed != plain).any() for compressed, plain in zip(gradients, exact, strict=True))
