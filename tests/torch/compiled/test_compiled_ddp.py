# SPDX-License-Identifier: Apache-2.0
"""A DistributedDataParallel whose backward pass torch compiles: its buckets give the bits of the eager hook."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
import torch._inductor.config
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hipress.torch import ddp
from hipress.torch.compiled import GraphPass, compress_group
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def compiled_reducer(graph_pass: Any) -> Iterator[None]:
    """DistributedDataParallel made within it lets torch.compile reduce its gradients."""
    torch._dynamo.reset()
    with (
        torch._dynamo.config.patch(optimize_ddp="python_reducer", compiled_autograd=True),
        torch._inductor.config.patch(
            post_grad_custom_post_pass=graph_pass, _fuse_ddp_communication=False, _fuse_ddp_bucket_size=25
        ),
    ):
        yield
    torch._dynamo.reset()


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(40, 300), nn.ReLU(), nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 1))


def _train(model: nn.Module, step_of: Any, rank: int, steps: range) -> None:
    for step in steps:
        # TorchInductor adds more than two values in another order than torch does.
        inputs, wanted = (each[:2] for each in training.batch(rank, step))
        model.zero_grad()
        step_of(inputs, wanted)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.05)


@training.in_process_group
def _both(rank: int, codec: str) -> dict[str, Any]:
    """The parameters after a training with the hook, after a compiled one, and after one that goes on from a state."""
    eager = _net()
    wrapped = DistributedDataParallel(eager)
    state = ddp.compress(wrapped, codec)
    _train(eager, lambda inputs, wanted: (wrapped(inputs) - wanted).square().mean().backward(), rank, range(5))
    sent_by_hook = state.sent_bytes
    state.close()
    graph_pass = GraphPass()
    with compiled_reducer(graph_pass):
        net = _net()
        model = DistributedDataParallel(net)
        compressed = compress_group(model.process_group, codec)

        @torch.compile
        def step_of(inputs: torch.Tensor, wanted: torch.Tensor) -> None:
            (model(inputs) - wanted).square().mean().backward()

        _train(net, step_of, rank, range(3))
        kept = compressed.state_dict()
        sent = compressed.sent_bytes
        compressed.close()
        compressed = compress_group(model.process_group, codec)
        compressed.load_state_dict(kept)
        _train(net, step_of, rank, range(3, 5))
        sent += compressed.sent_bytes
        compressed.close()
    return {
        "eager": training.fingerprint(eager),
        "compiled": training.fingerprint(net),
        "reports": graph_pass.reports,
        "sent": (sent_by_hook, sent),
    }


@pytest.mark.parametrize("codec", ["int8", "onebit"])
def test_a_compiled_model_trains_to_the_bits_of_the_hook(tmp_path: Path, codec: str) -> None:
    for rank in run(_both, 2, str(tmp_path), codec):
        (report,) = rank["reports"]
        assert not report.kept
        (bucket,) = report.replaced
        assert bucket.operator == "hipress.all_reduce_.default", "torch joins the gradients for it alone"
        assert len(bucket.names) == 6
        assert len(bucket.exact) == 4, "three biases, and a matrix of 200 elements"
        np.testing.assert_array_equal(
            np.frombuffer(rank["compiled"], np.float32), np.frombuffer(rank["eager"], np.float32)
        )
        assert rank["sent"][0] == rank["sent"][1] > 0
