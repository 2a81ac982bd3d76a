# SPDX-License-Identifier: Apache-2.0
"""The operators of compressed collectives run eager, trace with fake tensors, and are in what torch.export writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from hipress.torch import compiled
from hipress.torch.compiled import compress_graph, compress_group
from tests.torch.compiled.test_graph_pass import calls, gradient, traced
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


class _Averages(nn.Module):
    def forward(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        whole = compiled.all_reduce(tensor, "whole")
        shard = compiled.reduce_scatter(tensor, "shard")
        gathered = compiled.all_gather(tensor, "gathered")
        return compiled.wait(whole), compiled.wait(shard), compiled.wait(gathered)


@training.in_process_group
def _three_ways(rank: int, folder: str) -> dict[str, Any]:
    state = compress_group(codec="int8")
    module, given = _Averages(), gradient(rank, 1, 64, 80)
    program = torch.export.export(module, (torch.ones(64, 80),))
    torch.export.save(program, f"{folder}/{rank}.pt2")
    loaded = torch.export.load(f"{folder}/{rank}.pt2")
    results = {
        "eager": module(given),
        "exported": loaded.module()(given),
        "compiled": torch.compile(module, backend="aot_eager")(given),
        "traced": traced(module, torch.ones(64, 80))(given),
    }
    exact = [torch.empty(64, 80) for _ in range(2)]
    dist.all_gather(exact, given)
    sent = state.sent_bytes
    steps = state.state_dict()["shards"]
    state.close()
    return {
        "results": {name: [each.numpy() for each in result] for name, result in results.items()},
        "exact": [each.numpy() for each in exact],
        "sent": sent,
        "steps": steps,
    }


def test_eager_exported_and_compiled_operators_have_the_same_bits(tmp_path: Path) -> None:
    ranks = run(_three_ways, 2, str(tmp_path), str(tmp_path))
    for rank, found in enumerate(ranks):
        eager = found["results"]["eager"]
        for name, result in found["results"].items():
            for own, other in zip(result, eager, strict=True):
                np.testing.assert_array_equal(own, other, name)
        average = sum(found["exact"]) / 2
        np.testing.assert_allclose(eager[0], average, atol=0.05)
        np.testing.assert_allclose(eager[1], average[rank * 32 : (rank + 1) * 32], atol=0.05)
        np.testing.assert_allclose(eager[2], np.concatenate(found["exact"]), atol=0.05)
        np.testing.assert_array_equal(eager[0], ranks[0]["results"]["eager"][0])
        np.testing.assert_array_equal(eager[2], ranks[0]["results"]["eager"][2])
        # One byte for each element: a whole tensor, half of one, and a whole one; four times.
        assert 64 * 80 * 4 * 2.5 <= found["sent"] < 64 * 80 * 4 * 2.5 * 1.1
        assert found["steps"] == {"shard": 4, "gathered, gathered": 4}


@training.in_process_group
def _gathers(rank: int) -> dict[str, Any]:
    """A graph that gathers parameters, as it is and with `gathers`."""
    group = dist.group.WORLD
    state = compress_group(codec="int8")

    def gather(shard: torch.Tensor) -> torch.Tensor:
        whole = torch.ops._c10d_functional.all_gather_into_tensor(shard, 2, group.group_name)
        return torch.ops._c10d_functional.wait_tensor(whole)

    graph = traced(gather, torch.ones(64, 80))
    untouched = compress_graph(graph)
    before = calls(graph)
    report = compress_graph(graph, gathers=True)
    whole = graph(gradient(rank, 1, 64, 80))
    state.close()
    found = {"untouched": untouched, "before": before, "report": report, "after": calls(graph)}
    return {**found, "whole": whole.numpy(), "exact": [gradient(each, 1, 64, 80).numpy() for each in range(2)]}


def test_a_pass_compresses_parameters_only_where_it_is_told(tmp_path: Path) -> None:
    for found in run(_gathers, 2, str(tmp_path)):
        assert not found["untouched"].replaced
        assert found["before"][0] == "_c10d_functional.all_gather_into_tensor.default"
        assert found["after"] == ["hipress.all_gather.default", "_c10d_functional.wait_tensor.default"]
        assert len(found["report"].replaced) == 1
        np.testing.assert_allclose(found["whole"], np.concatenate(found["exact"]), atol=0.05)
