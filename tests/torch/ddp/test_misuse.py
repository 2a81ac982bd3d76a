# SPDX-License-Identifier: Apache-2.0
"""A wrong call or a lost rank raises a typed error that says what to do, and no state is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp
from hipress.torch.ddp.engine_carrier import EngineCarrier
from hipress.torch.ddp.group_carrier import GroupCarrier
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from tests.ranks import ROOT, clean_environment
from tests.torch.ddp import training
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.slow


@training.in_process_group
def _wrong_calls(_rank: int) -> None:
    net = training.Net()
    with pytest.raises(hp.InvalidArgument, match="wrap it in torch"):
        ddp.compress(net, "onebit")  # type: ignore[arg-type]
    model = DistributedDataParallel(net)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, r"compress\(model, codec\) needs a codec, such as codec='int8'"),
        ({"warmup": 2, "topology": "allgather"}, "needs a codec"),
        ({"codec": "onebt"}, "onebt"),
        ({"codec": "int8", "topology": "star"}, "there is no topology 'star'"),
        ({"codec_for": {"frist.weight": "fp16"}}, "frist.weight"),
        ({"codec": "int8", "carrier": "pigeon"}, "carrier='pigeon' does not exist"),
        ({"codec": "int8", "min_compress_bytes": -1}, "min_compress_bytes"),
    ]
    for arguments, text in wrong:
        with pytest.raises(hp.InvalidArgument, match=text):
            ddp.compress(model, **arguments)
    with pytest.raises(hp.NotInitialized):
        ddp.compress(model, "onebit", carrier="hipress")
    torch._dynamo.config.optimize_ddp = "python_reducer"  # type: ignore[assignment]
    with pytest.raises(hp.Unsupported, match="ddp_optimizer"):
        ddp.compress(model, "onebit")
    torch._dynamo.config.optimize_ddp = True
    ddp.compress(model, "onebit")
    with pytest.raises(hp.InvalidArgument, match="has a communication hook already"):
        ddp.compress(model, "onebit")


def test_wrong_calls_are_named(tmp_path: Path) -> None:
    run(_wrong_calls, 2, str(tmp_path))


@training.in_process_group
def _different(rank: int, what: str) -> None:
    model = DistributedDataParallel(training.Net())
    codec = "fp16" if what == "codec" and rank == 1 else "onebit"
    ddp.compress(model, codec, warmup=1 + rank if what == "warm-up" else 0)


@pytest.mark.parametrize(("what", "text"), [("codec", "codec fp16"), ("warm-up", "warmup Warmup(steps=2")])
def test_ranks_that_differ_are_told_on_all(tmp_path: Path, what: str, text: str) -> None:
    for error in outcomes(_different, 2, str(tmp_path), what):
        assert isinstance(error, hp.Mismatch)
        assert "rank 1 of the process group differs from rank 0" in str(error)
        assert text in str(error)


class _Elsewhere:
    """A parameter on a device that this machine may not have."""

    device = torch.device("cuda", 1)


def test_a_model_on_two_devices_is_refused_with_a_parameter_of_each() -> None:
    here = torch.nn.Parameter(torch.zeros(2000))
    with pytest.raises(hp.Unsupported, match=r"'near' is on cpu and 'far' on cuda:1; .* takes a model on one device"):
        GroupCarrier({"near": here, "far": _Elsewhere()}, None, GroupOptions("onebit"))  # type: ignore


@training.in_process_group
def _engine_with_a_gpu(_rank: int) -> None:
    hp.init()
    here = torch.nn.Parameter(torch.zeros(2000))
    group: Any = dist.group.WORLD
    with pytest.raises(hp.Unsupported, match=r"takes models on the CPU, and 'far' is on cuda:1: leave out carrier="):
        EngineCarrier({"near": here, "far": _Elsewhere()}, group, GroupOptions("onebit"))  # type: ignore


def test_the_engine_refuses_a_model_on_a_gpu(tmp_path: Path) -> None:
    run(_engine_with_a_gpu, 1, str(tmp_path))


@training.in_process_group
def _other_ranks_than_hipress(rank: int) -> None:
    hp.init()
    alone = [dist.new_group([each]) for each in range(2)]
    model = DistributedDataParallel(training.Net(), process_group=alone[rank])
    with pytest.raises(hp.InvalidArgument, match=f"rank 0 of 1, HiPress as rank {rank} of 2: .* the same launcher"):
        ddp.compress(model, "onebit", carrier="hipress")


def test_a_group_of_other_ranks_than_hipress_is_refused(tmp_path: Path) -> None:
    run(_other_ranks_than_hipress, 2, str(tmp_path))


def _groups_of_other_sizes(folder: str) -> str:
    """Rank 0 averages in a group of its own, and rank 1 in a group of both ranks."""
    with training.process_group(folder, timeout=4.0) as (rank, _):
        shapes = {"a": TensorShape(2000, torch.float32, 2)}
        if rank == 0:
            average = GroupAverage(shapes, dist.new_group([0], use_local_synchronization=True), GroupOptions("onebit"))
            tensor = torch.ones(2000)
            average.start([("a", tensor)], 0).wait()
            time.sleep(8.0)
            return ""
        start = time.monotonic()
        with pytest.raises(hp.TransportError, match=r"rank 1 of a process group of 2 ranks .* the same call") as caught:
            GroupAverage(shapes, None, GroupOptions("onebit"))
        assert time.monotonic() - start < 7.0
        return str(caught.value)


def test_groups_of_other_sizes_end_in_an_error_within_the_timeout(tmp_path: Path) -> None:
    first, second = run(_groups_of_other_sizes, 2, str(tmp_path))
    assert first == ""
    assert second


_LOST = """
import os, sys, time
import torch
from torch.nn.parallel import DistributedDataParallel
sys.path.insert(0, sys.argv[1])
import hipress.torch as hp
from hipress.torch import ddp
from tests.torch.ddp import training

torch.set_num_threads(1)
with training.process_group(sys.argv[2], timeout=10.0) as (rank, world):
    torch.manual_seed(0)
    model = DistributedDataParallel(training.Net(), bucket_cap_mb=0.3)
    state = ddp.compress(model, "onebit")
    def step(number):
        inputs, wanted = training.batch(rank, number)
        (model(inputs) - wanted).square().mean().backward()
    step(0)
    step(1)
    def states():
        saved = state.state_dict()["states"]
        return {key: {name: value.tolist() for name, value in each.items()} for key, each in saved.items()}
    before = states()
    if rank == 1:
        if sys.argv[3] == "hangs":
            time.sleep(60)
        os._exit(1)
    kinds = []
    for number in (2, 3):
        try:
            step(number)
        except Exception as error:
            kinds.append(type(error).__name__)
    print(",".join(kinds), "same" if before and states() == before else "changed", flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_a_lost_rank_ends_in_an_error_and_leaves_the_states(tmp_path: Path, how: str) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _LOST, str(ROOT), str(tmp_path), how],
            env=clean_environment(HIPRESS_RANK=str(rank), HIPRESS_SIZE="2"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    output, errors = ranks[0].communicate(timeout=120)
    ranks[1].kill()
    ranks[1].communicate(timeout=120)
    assert ranks[0].returncode == 0, errors
    assert output.split() == ["RuntimeError,TransportError", "same"] or output.split() == [
        "TransportError,TransportError",
        "same",
    ], errors
    assert "averaging gradients failed" in errors
