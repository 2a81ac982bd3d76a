# SPDX-License-Identifier: Apache-2.0
"""hipress.horovod.torch can replace horovod.torch."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import hipress.horovod.torch as hvd
import hipress.torch as hp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: The names in horovod.torch 0.28.1, without `elastic`.
NAMES = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]


def test_it_has_the_names_of_horovod() -> None:
    assert [name for name in NAMES if not hasattr(hvd, name)] == []


@pytest.mark.parametrize(
    ("function", "first"),
    [
        ("allreduce", ["tensor", "average", "name", "compression", "op", "prescale_factor", "postscale_factor"]),
        ("allgather", ["tensor", "name", "process_set"]),
        ("broadcast", ["tensor", "root_rank", "name", "process_set"]),
        ("alltoall", ["tensor", "splits", "name", "process_set"]),
        ("reducescatter", ["tensor", "name", "compression", "op", "process_set", "prescale_factor"]),
        ("DistributedOptimizer", ["optimizer", "named_parameters", "compression", "backward_passes_per_step", "op"]),
    ],
)
def test_arguments_come_in_the_order_of_horovod(function: str, first: list[str]) -> None:
    assert list(inspect.signature(getattr(hvd, function)).parameters)[: len(first)] == first


def _script(timeline: str) -> tuple[list[float], list[str]]:
    """A training as a script for Horovod writes it."""
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = nn.Linear(200, 50)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), compression=hvd.Compression.fp16, op=hvd.Average, num_groups=2
    )
    hvd.start_timeline(timeline)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 200)).square().mean().backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
    hvd.stop_timeline()
    loss = float(hvd.allreduce(torch.tensor(float(hvd.rank())), name="loss"))
    refused = []
    for call in (
        lambda: hvd.allreduce(torch.ones(2), op=hvd.Adasum),
        lambda: hvd.allreduce(torch.ones(2), process_set=[0]),
        lambda: hvd.stop_timeline(),
    ):
        try:
            call()
        except hvd.HorovodInternalError as error:
            refused.append(type(error).__name__)
    values: list[Any] = model.weight.detach().flatten().tolist()
    return [loss, *values], refused


def test_a_script_of_horovod_runs(tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.json"
    first, second = run(_script, 2, str(timeline))
    assert first == second
    assert first[0][0] == 0.5
    assert first[1] == ["Unsupported"] + ["InvalidArgument"] * 2
    spans = [event for event in json.loads(timeline.read_text()) if event["ph"] == "X"]
    assert {event["pid"] for event in spans} == {0, 1}
    assert {"encode", "send", "recv", "decode"} <= {event["name"] for event in spans}
    assert {"weight", "bias"} <= {event["args"].get("tensor") for event in spans}


def _asynchronous() -> list[str]:
    hvd.init()
    handles = [hvd.allgather_async(torch.ones(hvd.rank() + 1), name=str(index)) for index in range(5)]
    while not hvd.poll(handles[0]):
        pass
    lengths = [len(hvd.synchronize(handle)) for handle in reversed(handles)]
    assert lengths == [3] * 5
    with pytest.raises(hp.InvalidArgument, match="synchronised already"):
        hvd.synchronize(handles[0])
    half = torch.arange(4 * hvd.size(), dtype=torch.bfloat16).reshape(-1, 2)
    assert torch.equal(hvd.allgather(half, name="half"), torch.cat([half] * hvd.size()))
    kinds = []
    try:
        # Operations without names are matched by the order of the calls.
        hvd.allreduce(torch.ones(2)) if hvd.rank() == 0 else hvd.broadcast(torch.ones(2), 0)
    except hp.Mismatch as error:
        kinds.append(type(error).__name__)
    return kinds


def test_handles_and_orders() -> None:
    assert run(_asynchronous, 2) == [["Mismatch"]] * 2


@pytest.mark.parametrize("parameters", [3, None, torch.ones(2), [torch.ones(2), 3], ["weight"]])
def test_what_has_no_parameters_is_not_broadcast(parameters: Any) -> None:
    with pytest.raises(ValueError, match=r"takes model.state_dict\(\), named_parameters\(\) or parameters\(\), not a "):
        hvd.broadcast_parameters(parameters, root_rank=0)
