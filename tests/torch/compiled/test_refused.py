# SPDX-License-Identifier: Apache-2.0
"""What graphs and operators cannot have compressed is an error that names the remedy, or stands in the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import fx

from hipress.errors import HipressError, InvalidArgument, NotInitialized, Unsupported
from hipress.torch import compiled
from hipress.torch.process_groups import BackendOptions
from tests.torch.compiled.test_graph_pass import traced
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

_OPS = torch.ops._c10d_functional
_MATRIX = torch.ones(64, 64)


def _reduced(tensor: torch.Tensor, op: str = "sum", group: str = "0") -> torch.Tensor:
    return _OPS.wait_tensor(_OPS.all_reduce(tensor, op, group))


def _error(call: Any, *arguments: Any, **options: Any) -> tuple[type, str]:
    try:
        call(*arguments, **options)
    except HipressError as error:
        return type(error), str(error)
    except Exception as error:  # torch has wrapped it
        return type(error), str(error)
    return type(None), ""


def _graphs() -> dict[str, fx.GraphModule]:
    group = dist.group.WORLD.group_name
    unshaped = traced(lambda x: _reduced(x, group=group), _MATRIX)
    for node in unshaped.graph.nodes:
        node.meta.clear()
    return {
        "max": traced(lambda x: _reduced(x, "max", group), _MATRIX),
        "double": traced(lambda x: _reduced(x, group=group), _MATRIX.double()),
        "integers": traced(lambda x: _reduced(x, group=group), _MATRIX.long()),
        "several": traced(lambda x: _OPS.all_reduce_coalesced([x, x], "sum", group), _MATRIX),
        "unshaped": unshaped,
    }


@training.in_process_group
def _refused(rank: int) -> dict[str, Any]:
    world = dist.group.WORLD
    found: dict[str, Any] = {}
    plain = traced(lambda x: _reduced(x, group=world.group_name), _MATRIX)
    found["no codec"] = _error(compiled.compress_graph, plain)
    found["operator without codec"] = _error(compiled.all_reduce, _MATRIX, "weight")
    found["no group"] = _error(torch.ops.hipress.all_reduce, _MATRIX, "sum", "nobody", ["weight"], [4096], [2])
    found["codec missing"] = _error(compiled.compress_group)
    found["codec unknown"] = _error(compiled.compress_group, codec="twobit")
    made = dist.new_group(backend="hipress", pg_options=BackendOptions("int8"))
    found["codec twice"] = _error(compiled.compress_group, made, "onebit")
    found["of backend"] = compiled.wait(compiled.all_reduce(_MATRIX * rank, "weight", group=made)).unique().tolist()
    state = compiled.compress_group(codec="onebit")
    found["compressed twice"] = _error(compiled.compress_group, codec="int8")
    for name, graph in _graphs().items():
        before = str(graph.graph)
        found[name] = _error(compiled.compress_graph, graph)
        report = compiled.compress_graph(graph, strict=False)
        assert str(graph.graph) == before
        assert not report.replaced
        (found[f"{name}, kept"],) = [each.reason for each in report.kept]
    scatters = traced(lambda x: _OPS.reduce_scatter_tensor(x, "sum", 2, world.group_name), _MATRIX)
    found["residual of shards"] = _error(compiled.compress_graph, scatters)
    found["residual of shards, operator"] = _error(compiled.reduce_scatter, _MATRIX, "weight")
    found["max, operator"] = _error(compiled.all_reduce, _MATRIX, "weight", "max")
    found["double, operator"] = _error(compiled.all_reduce, _MATRIX.double(), "weight")
    found["parts"] = _error(torch.ops.hipress.all_reduce, _MATRIX, "sum", world.group_name, ["a", "b"], [1, 2], [1, 1])
    found["derivative"] = _error(
        lambda: compiled.wait(compiled.all_reduce(_MATRIX.clone().requires_grad_(), "weight")).sum().backward()
    )
    compiled.wait(compiled.all_reduce(_MATRIX, "weight"))
    found["other size"] = _error(compiled.all_reduce, torch.ones(64, 65), "weight")
    found["other state"] = _error(state.load_state_dict, {"steps": 1})

    class _Twice(torch.autograd.Function):
        """A compiled graph that runs for two layers in one backward pass."""

        @staticmethod
        def forward(context: Any, tensor: torch.Tensor) -> torch.Tensor:
            return tensor * 1

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            return compiled.wait(compiled.all_reduce(gradient, "layer"))

    inputs = _MATRIX.clone().requires_grad_()
    found["two layers"] = _error(lambda: _Twice.apply(_Twice.apply(inputs)).sum().backward())
    found["uneven"] = _error(compiled.reduce_scatter, torch.ones(63, 64), "uneven")
    different = torch.ones(64, 64 + rank)
    found["ranks differ"] = _error(compiled.all_reduce, different, "differs")
    state.close()
    found["closed"] = _error(state.state_dict)
    return found


def test_errors_name_the_remedy(tmp_path: Path) -> None:
    for found in run(_refused, 2, str(tmp_path)):
        expected: dict[str, tuple[type, str]] = {
            "no codec": (InvalidArgument, "compress_group(group, codec=...)"),
            "operator without codec": (InvalidArgument, "compress_group(group, codec=...)"),
            "no group": (InvalidArgument, "there is no process group 'nobody'"),
            "codec missing": (InvalidArgument, "needs a codec"),
            "codec unknown": (InvalidArgument, "twobit"),
            "codec twice": (InvalidArgument, "was made with backend 'hipress' and codec 'int8'"),
            "compressed twice": (InvalidArgument, "close() that state"),
            "max": (Unsupported, "combines values by 'max'"),
            "double": (InvalidArgument, "torch.float64"),
            "integers": (InvalidArgument, "torch.int64"),
            "several": (Unsupported, "all_reduce_coalesced"),
            "unshaped": (InvalidArgument, "trace it with fake tensors"),
            "residual of shards": (Unsupported, "choose a codec without error feedback"),
            "residual of shards, operator": (Unsupported, "choose a codec without error feedback"),
            "max, operator": (Unsupported, "combines values by 'max'"),
            "double, operator": (InvalidArgument, "convert it before"),
            "parts": (InvalidArgument, "counts that add up"),
            "derivative": (Unsupported, "has no derivative"),
            "other size": (InvalidArgument, "has 4160 elements, and had 4096"),
            "other state": (InvalidArgument, "no state_dict()"),
            "two layers": (InvalidArgument, "a second time in one backward pass"),
            "uneven": (InvalidArgument, "no equal shards for 2 ranks"),
            "ranks differ": (HipressError, "differs from rank 0"),
            "closed": (NotInitialized, "were closed"),
        }
        for name, (kind, text) in expected.items():
            assert issubclass(found[name][0], kind), (name, found[name])
            assert text in found[name][1], (name, found[name])
        for name in ("max", "double", "integers", "several", "unshaped"):
            assert found[f"{name}, kept"] == found[name][1]
        assert found["of backend"] == [0.5]
