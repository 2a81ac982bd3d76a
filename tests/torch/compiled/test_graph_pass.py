# SPDX-License-Identifier: Apache-2.0
"""compress_graph() replaces the reductions of a graph, leaves everything else where it is, and says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from hipress.torch.compiled import compress_graph, compress_group
from hipress.torch.process_groups import BackendOptions, gradients
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(*inputs)


def calls(graph: fx.GraphModule) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def gradient(rank: int, step: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(10 * step + rank))


def _step(matrix: torch.Tensor, vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A graph of a step, with work between the start of a reduction and its wait."""
    group = dist.group.WORLD
    first = torch.ops._c10d_functional.all_reduce(matrix / 2, "sum", group.group_name)
    second = torch.ops._c10d_functional.all_reduce(vector, "avg", group.group_name)
    doubled = vector * 2
    waited = torch.ops._c10d_functional.wait_tensor(first)
    return waited, torch.ops._c10d_functional.wait_tensor(second) + doubled


@training.in_process_group
def _same_bits(rank: int, codec: str, topology: str) -> list[Any]:
    """The report, the operators before and after, and per step what the graph returns and what eager calls return."""
    compressed = compress_group(codec=codec, topology=topology)
    eager = dist.new_group(backend="hipress", pg_options=BackendOptions(codec, topology=topology))
    graph = traced(_step, gradient(rank, 0, 64, 80), gradient(rank, 0, 2000))
    before = calls(graph)
    report = compress_graph(graph)
    results = []
    for step in range(4):
        matrix, vector = gradient(rank, step, 64, 80), gradient(rank, step, 2000)
        kept = matrix.clone()
        out, _ = graph(matrix, vector)
        assert torch.equal(matrix, kept), "the operator has changed its input"
        with gradients({report.replaced[0].names[0]: matrix.shape}):
            dist.all_reduce(kept, op=dist.ReduceOp.AVG, group=eager)
        results.append((out.numpy(), kept.numpy()))
    sent, state = compressed.sent_bytes, compressed.state_dict()
    compressed.close()
    return [report, before, calls(graph), results, sent, sorted(state["averages"]["tensors"])]


@pytest.mark.parametrize(("codec", "topology"), [("int8", "auto"), ("onebit", "auto"), ("onebit", "ps")])
def test_a_graph_gives_the_bits_of_eager_calls_and_waits_where_it_has_waited(
    tmp_path: Path, codec: str, topology: str
) -> None:
    results_of_ranks = run(_same_bits, 2, str(tmp_path), codec, topology)
    for report, before, after, results, sent, names in results_of_ranks:
        assert [each.operator for each in report.replaced] == ["hipress.all_reduce.default"] * len(report.replaced)
        # With error feedback a step counts only if its vectors are finite, too.
        assert len(report.replaced) == (2 if codec == "onebit" else 1)
        assert len(report.replaced) + len(report.kept) == 2
        assert all("fewer than two dimensions" in each.reason for each in report.kept)
        new = iter(["hipress.all_reduce.default"] * len(report.replaced) + ["_c10d_functional.all_reduce.default"])
        expected = [next(new) if "all_reduce" in each else each for each in before if each != "aten.div.Tensor"]
        assert after == expected
        for graph, eager in results:
            np.testing.assert_array_equal(graph, eager)
        assert 0 < sent < 4 * 64 * 80 * 4 // (3 if codec == "int8" else 20)
        assert names[0] == f"all_reduce 1 of {len(report.replaced)}, 64x80"
