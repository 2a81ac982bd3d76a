# SPDX-License-Identifier: Apache-2.0
"""Averages over groups of tensors on an NVIDIA GPU have the bits and the states of the processor, over Gloo and NCCL.
`make test-gpu` runs this, and fails without a GPU, which all ranks share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hipress.torch import ddp
from hipress.torch.process_groups.gpus.side import GpuSide
from tests.torch.process_groups import shared_gpu, unsent
from tests.torch.process_groups.averages import as_on_the_processor, summed_as_on_the_processor
from tests.torch.process_groups.shared_gpu import sharing_the_gpu
from tests.torch.process_groups.steps_that_do_not_count import steps_that_do_not_count
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

over_carriers = pytest.mark.parametrize("carrier", shared_gpu.CARRIERS)


@pytest.fixture(autouse=True)
def _gpu() -> None:
    shared_gpu.required()


def _side() -> GpuSide:
    return GpuSide(shared_gpu.DEVICE)


@sharing_the_gpu
def _as_on_the_processor(rank: int, world: int, topology: str) -> None:
    as_on_the_processor(rank, world, topology, _side)


@over_carriers
@pytest.mark.parametrize(
    ("topology", "world"),
    [("ps", 2), ("ps", 3), ("allgather", 3), ("ring", 3), ("butterfly", 4), ("ps", 1), ("hierarchical", 4)],
)
def test_averages_and_states_are_those_of_the_processor(
    tmp_path: Path, topology: str, world: int, carrier: str
) -> None:
    run(_as_on_the_processor, world, str(tmp_path), carrier, world, topology)


@sharing_the_gpu
def _summed_as_on_the_processor(rank: int) -> None:
    summed_as_on_the_processor(rank, _side)


@over_carriers
@pytest.mark.parametrize("world", [2, 4])
def test_added_levels_and_states_are_those_of_the_processor(tmp_path: Path, world: int, carrier: str) -> None:
    run(_summed_as_on_the_processor, world, str(tmp_path), carrier)


@sharing_the_gpu
def _steps_that_do_not_count(rank: int, topology: str) -> None:
    steps_that_do_not_count(rank, topology, _side)


@over_carriers
@pytest.mark.parametrize(("topology", "world"), [("ps", 2), ("allgather", 2), ("ring", 3), ("hierarchical", 4)])
def test_a_step_that_does_not_count_changes_no_state(tmp_path: Path, topology: str, world: int, carrier: str) -> None:
    run(_steps_that_do_not_count, world, str(tmp_path), carrier, topology)


@sharing_the_gpu
def _go_on(rank: int, world: int, topology: str) -> None:
    unsent.go_on(rank, world, topology, "onebit", _side)


@over_carriers
@pytest.mark.parametrize(("topology", "world"), [("ps", 2), ("hierarchical", 4)])
def test_no_residual_is_lost_with_another_codec(tmp_path: Path, topology: str, world: int, carrier: str) -> None:
    run(_go_on, world, str(tmp_path), carrier, world, topology)


@sharing_the_gpu
def _trained(rank: int, place: str, chosen: dict[str, Any]) -> list[bytes]:
    """The parameters and the codecs' states after some steps. An element of the gradient is one value, so it is the
    same on every device."""
    model = nn.Linear(2000, 50, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    wrapped = DistributedDataParallel(model.to(place), bucket_cap_mb=0.1)
    state = ddp.compress(wrapped, **chosen)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.5)
    for step in range(4):
        optimizer.zero_grad()
        row = torch.randn(1, 2000, generator=torch.Generator().manual_seed(10 * step + rank)).to(place)
        wrapped(row).sum().backward()
        optimizer.step()
    kept = [each for states in state.state_dict()["states"].values() for each in states.values()]
    return [model.weight.detach().cpu().numpy().tobytes(), *(np.asarray(each).tobytes() for each in kept)]


@pytest.mark.parametrize(
    ("codec", "topology", "world", "carrier"),
    [
        ("onebit", "ps", 2, "gloo"),
        ("onebit", "ps", 2, "nccl"),
        ("onebit", "ring", 4, "nccl"),
        ("int8", "ps", 2, "gloo"),
        ("int8", "allgather", 4, "nccl"),
        ("dgc", "ps", 2, "gloo"),
        ("dgc", "ps", 4, "nccl"),
        ("thc", "ps", 2, "gloo"),
        ("thc", "ps", 2, "nccl"),
        ("thc", "ps", 4, "nccl"),
    ],
)
def test_a_model_of_distributed_data_parallel_and_its_states_get_the_bits_of_the_processor(
    tmp_path: Path, codec: str, topology: str, world: int, carrier: str
) -> None:
    chosen = {"codec": codec, "topology": topology}
    results = []
    for place in ("cuda:0", "cpu"):
        folder = tmp_path / place.replace(":", "")
        folder.mkdir()
        results.append(run(_trained, world, str(folder), carrier, place, chosen))
    on_gpu, on_processor = results
    assert on_gpu == on_processor
    assert len({parameters for parameters, *_ in on_gpu}) == 1
