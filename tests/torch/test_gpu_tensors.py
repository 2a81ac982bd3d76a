# SPDX-License-Identifier: Apache-2.0
"""Tensors on GPUs can be synchronised, and without a usable GPU the error says what to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import hipress.torch as hp
from hipress import _core, runtime
from hipress.torch import codec_operators, operators
from tests.torch.process_groups import shared_gpu
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _without_that_gpu() -> None:
    hp.init()
    # A torch without CUDA cannot make such a tensor, so an object replaces it.
    tensor: Any = SimpleNamespace(device=torch.device("cuda", 99), get_device=lambda: 99)
    with pytest.raises(hp.Unsupported, match=r"'w' is on a GPU, but cuda:99 cannot be used: .*call \.cpu\(\) first"):
        operators.device_of(tensor, "w")


def test_a_gpu_that_cannot_be_used_is_named_with_the_tensor() -> None:
    run(_without_that_gpu, 1)


def _moved_away() -> None:
    hp.init()
    spec = _core.TensorSpec("w", count=5, device=_core.SimulatedDevice())
    (declared,) = runtime.current().engine.declare([spec])
    values = torch.ones(5)
    assert operators.submit_in_place(values, declared) == -1
    with pytest.raises(hp.Unsupported, match=r"'w': it is not on simulated:0, where it was when it was declared"):
        operators.raise_refusal(values, "w")


def test_a_tensor_that_is_not_where_it_was_declared_is_refused() -> None:
    run(_moved_away, 1)


def _combined(place: str) -> list[bytes]:
    hp.init()
    combined = []
    for codec in ("none", "fp16", "onebit"):
        values = torch.randn(30_000, generator=torch.Generator().manual_seed(hp.rank())).to(place)
        # The input is still being computed when it is submitted, and the next operation uses the result at once.
        combined.append((hp.allreduce(values.neg().neg(), name=codec, codec=codec) * 2).cpu().numpy().tobytes())
    return combined


def _trained(place: str) -> list[bytes]:
    hp.init()
    torch.manual_seed(1)
    model = nn.Linear(2000, 50, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    model.to(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec="onebit")
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(3):
        optimizer.zero_grad()
        # The gradient has one term for each element, so it is the same on every device.
        row = torch.randn(1, 2000, generator=torch.Generator().manual_seed(10 * step + hp.rank())).to(place)
        model(row).sum().backward()
        optimizer.step()
    return [parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters()]


def test_codec_operators_give_the_payloads_and_states_of_the_host() -> None:
    shared_gpu.required()
    operators: Any = torch.ops.hipress
    kept = {place: torch.zeros(30_000, device=place) for place in ("cpu", "cuda")}
    for step in range(3):
        values = torch.randn(30_000, generator=torch.Generator().manual_seed(step))
        # The gradient is still being computed when it is encoded.
        sent = {place: operators.onebit_encode(values.to(place).neg(), kept[place], step=step) for place in kept}
        decoded = {place: operators.onebit_decode(sent[place], 30_000) for place in kept}
        for place, message in sent.items():
            operators.onebit_decode_accumulate(message, decoded[place])
        codec_operators.wait_for_gpu()
        assert torch.equal(codec_operators.exact_payload(sent["cuda"]).cpu(), sent["cpu"])
        assert torch.equal(decoded["cuda"].cpu(), decoded["cpu"])
        assert torch.equal(kept["cuda"].cpu(), kept["cpu"])
    message = codec_operators.gpu_message(sent["cpu"])
    assert torch.equal(operators.onebit_decode(message, 30_000).cpu(), operators.onebit_decode(sent["cpu"], 30_000))


def test_a_compiled_step_of_codec_operators_is_the_eager_step() -> None:
    shared_gpu.required()
    operators: Any = torch.ops.hipress

    def step(values: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return operators.onebit_decode(operators.onebit_encode(values * 2, residual), values.numel()) + 1

    values = torch.randn(5000, device="cuda")
    eager, compiled = (torch.zeros(5000, device="cuda") for _ in range(2))
    assert torch.equal(step(values, eager), torch.compile(step, fullgraph=True)(values, compiled))
    assert torch.equal(eager, compiled)


@pytest.mark.parametrize("program", [_combined, _trained])
def test_the_bits_of_the_host(program: Any) -> None:
    shared_gpu.required()
    assert run(program, 2, "cuda:0") == run(program, 2, "cpu")
