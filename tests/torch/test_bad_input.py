# SPDX-License-Identifier: Apache-2.0
"""Wrong use raises a typed error that says what to do, and loses nothing."""

from __future__ import annotations

import functools
import os
import re
import socket
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hipress.torch as hp
from hipress.torch.synchronizer import GradientSynchronizer
from tests.ranks import free_port
from tests.torch.models import loss, mlp
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.slow


def _wrap(model: nn.Module, **options: Any) -> Any:
    return hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), **options)


@pytest.mark.parametrize(
    "use",
    [
        lambda: hp.rank(),
        lambda: hp.size(),
        lambda: hp.local_rank(),
        lambda: hp.counters(),
        lambda: hp.allreduce(torch.ones(3)),
        lambda: hp.broadcast(torch.ones(3), 0),
        lambda: hp.synchronize(1),
        lambda: hp.poll(1),
        lambda: _wrap(mlp()),
    ],
)
def test_use_before_init(use: Any) -> None:
    with pytest.raises(hp.NotInitialized, match=r"call init\(\) first"):
        use()


def _alone() -> None:
    hp.init()
    model = mlp()
    with pytest.raises(hp.InvalidArgument, match=r"twobit.*(fp16|none|onebit)"):
        _wrap(model, codec="twobit")
    with pytest.raises(hp.InvalidArgument, match="error_feedback"):
        _wrap(model, codec="onebit(feedback=true)")
    with pytest.raises(hp.InvalidArgument, match=r"star.*ps"):
        _wrap(model, topology="star")
    with pytest.raises(hp.InvalidArgument, match="backward_passes_per_step"):
        _wrap(model, backward_passes_per_step=0)
    with pytest.raises(hp.InvalidArgument, match="gradient_predivide_factor"):
        _wrap(model, gradient_predivide_factor=2.0, op=hp.Sum)
    with pytest.raises(hp.InvalidArgument, match=r"codec_for.*'0.wieght'"):
        _wrap(model, codec_for={"0.wieght": "fp16"})
    with pytest.raises(hp.InvalidArgument, match="2 of the optimizer's parameters have no name"):
        hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), list(model.named_parameters())[:-2])
    with pytest.raises(hp.DuplicateName, match="'w'"):
        hp.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), [("w", parameter) for parameter in model.parameters()]
        )
    with pytest.raises(hp.InvalidArgument, match="wrap it once"):
        hp.DistributedOptimizer(_wrap(model), model.named_parameters())
    with pytest.raises(hp.Unsupported, match="float8_e5m2"):
        hp.allreduce(torch.ones(3).to(torch.float8_e5m2))
    with pytest.raises(hp.Unsupported, match=r"meta.*\.cpu\(\)"):
        hp.allreduce(torch.ones(3, device="meta"))
    with pytest.raises(hp.Unsupported, match="int32"):
        hp.allreduce(torch.ones(3, dtype=torch.int32), codec="fp16")
    with pytest.raises(hp.InvalidArgument, match=r"not contiguous.*\.contiguous\(\)"):
        hp.allreduce(torch.ones(4, 6).t(), name="x")
    with pytest.raises(hp.InvalidArgument, match=r"not contiguous"):
        hp.allreduce_(torch.ones(10)[::2])
    with pytest.raises(hp.InvalidArgument, match=r"sparse.*\.to_dense\(\)"):
        hp.allreduce(torch.ones(3).to_sparse())
    with pytest.raises(hp.InvalidArgument, match="root rank 7"):
        hp.broadcast(torch.ones(3), root_rank=7)
    with pytest.raises(hp.InvalidArgument, match="not both"):
        hp.allreduce(torch.ones(3), average=True, op=hp.Sum)
    with pytest.raises(hp.InvalidArgument, match="give the tensor a name"):
        hp.allreduce(torch.ones(3), codec="onebit")
    with pytest.raises(hp.InvalidArgument, match="12345"):
        hp.synchronize(12345)
    first = hp.allreduce_async(torch.ones(3), name="twice")
    with pytest.raises(hp.DuplicateName, match="'twice'"):
        hp.allreduce_async(torch.ones(3), name="twice")
    assert hp.synchronize(first).tolist() == [1.0] * 3
    # The same process can go on, because nothing was lost.
    assert hp.allreduce(torch.ones(3)).tolist() == [1.0] * 3


def test_bad_arguments() -> None:
    run(_alone, 1)


def _without_tensors() -> list[str]:
    hp.init()
    array = np.ones((2, 3), np.float32)
    one = ["allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "allgather", "allgather_async", "alltoall"]
    one += ["alltoall_async", "reducescatter", "reducescatter_async"]
    several = ["allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "allgather", "allgather_async"]
    several += ["reducescatter", "reducescatter_async"]
    calls = [functools.partial(getattr(hp, each), array, name="x") for each in one]
    calls += [functools.partial(getattr(hp, f"grouped_{each}"), [array], name="x") for each in several]
    calls += [
        functools.partial(getattr(hp, each), array, 0, name="x")
        for each in ("broadcast", "broadcast_", "broadcast_async", "broadcast_async_")
    ]
    calls += [functools.partial(hp.sparse_allreduce_async, array, "x")]
    calls += [functools.partial(hp.allreduce, array, name="x", compression=hp.Compression.fp16)]
    for call in calls:
        with pytest.raises(hp.InvalidArgument, match=r"'x.*not a numpy\.ndarray: call torch\.from_numpy\(\) first"):
            call()
    with pytest.raises(
        hp.InvalidArgument, match=r"allreduce takes a torch.Tensor, not a list: call torch.as_tensor\(\)"
    ):
        hp.allreduce([1.0])
    return [call.func.__name__ for call in calls]


def test_what_is_no_tensor_is_refused_with_its_type() -> None:
    (called,) = run(_without_tensors, 1)
    collectives = {
        name for name in dir(hp) if re.match("(grouped_|sparse_)?(allreduce|allgather|alltoall|broadcast|reduce)", name)
    }
    others = {"allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"}
    assert collectives - others == set(called)


def _sparse() -> str:
    hp.init()
    model = nn.Sequential(nn.Embedding(50, 8, sparse=True), nn.Linear(8, 2))
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = _wrap(model)
    for step in range(3):
        optimizer.zero_grad()
        if step < 2 or hp.rank() == 0:  # once a gradient is known to be sparse, a rank may lack it
            model(torch.tensor([hp.rank(), 5])).sum().backward()
        optimizer.step()
        gradient = model[0].weight.grad
        assert gradient is not None
        assert gradient.layout == torch.sparse_coo
        touched = gradient.to_dense().abs().sum(1).nonzero().flatten().tolist()
        assert touched == ([0, 1, 5] if step < 2 else [0, 5])
    assert len(set(hp.allgather_object(model[0].weight.detach().numpy().tobytes()))) == 1
    dense = nn.Sequential(nn.Embedding(50, 8, sparse=True), nn.Linear(8, 2))
    optimizer = _wrap(dense, sparse_as_dense=True)
    dense(torch.tensor([hp.rank()])).sum().backward()
    optimizer.step()
    assert dense[0].weight.grad is not None
    assert dense[0].weight.grad.abs().sum(1).nonzero().flatten().tolist() == [0, 1]
    return str(dense[0].weight.detach().sum().item())


def test_sparse_gradients() -> None:
    torch.manual_seed(0)
    run(_sparse, 2)


def _non_contiguous_gradient() -> None:
    hp.init()
    model = nn.Linear(6, 4)
    optimizer = _wrap(model)
    model.weight.grad = torch.zeros(6, 4).t()
    with pytest.raises(hp.InvalidArgument, match=r"'weight' is not contiguous"):
        model(torch.ones(1, 6)).sum().backward()
    optimizer.zero_grad()
    model(torch.ones(1, 6)).sum().backward()


def test_a_non_contiguous_gradient() -> None:
    run(_non_contiguous_gradient, 1)


def _wrong_tensors() -> None:
    hp.init()
    values = torch.ones(2, 3, 4, 5)
    tensors = GradientSynchronizer([("w", values)])
    wrong: list[tuple[torch.Tensor, type[hp.HipressError], str]] = [
        (values.to_sparse(), hp.InvalidArgument, r"sparse.*\.to_dense\(\)"),
        (values.permute(3, 2, 1, 0), hp.InvalidArgument, r"not contiguous \(shape.*\.contiguous\(\)"),
        (values[:, :, ::2], hp.InvalidArgument, r"not contiguous"),
        (values.to(torch.float8_e5m2), hp.Unsupported, "float8_e5m2"),
        (values.to(torch.complex64), hp.Mismatch, "complex64 is not the declared float32"),
        (values.double(), hp.Mismatch, "not the declared float32"),
        (values[:1], hp.Mismatch, "60 elements, declared were 120"),
        (values.to("meta"), hp.Unsupported, r"meta.*\.cpu\(\)"),
    ]
    for tensor, error, message in wrong:
        with pytest.raises(error, match=f"'w'.*{message}"):
            tensors.submit(0, tensor)
    for tensor in (values, values.to(memory_format=torch.channels_last), torch.ones(2, 3, 1, 20).mT):
        assert tensors.wait(tensors.submit(0, tensor))


def test_wrong_tensors_of_a_list_are_refused() -> None:
    run(_wrong_tensors, 1)


def _different_models() -> None:
    hp.init()
    _wrap(mlp(hidden=300 + hp.rank()))


def test_different_models_on_different_ranks() -> None:
    for outcome in outcomes(_different_models, 2):
        assert isinstance(outcome, hp.Mismatch)
        with pytest.raises(hp.Mismatch, match=r"'0\.weight'.*\[300, 16\].*\[301, 16\]"):
            raise outcome


def _different_shapes() -> None:
    hp.init()
    hp.allreduce(torch.ones(3 + hp.rank()), name="metric")


def test_different_shapes_under_one_name() -> None:
    for outcome in outcomes(_different_shapes, 3):
        assert isinstance(outcome, hp.Mismatch)
        assert "metric" in str(outcome)


def _one_rank_without_optimizer() -> None:
    hp.init(timeout=4.0)
    if hp.rank() == 0:
        _wrap(mlp())
    else:
        time.sleep(6.0)


def test_a_rank_that_never_makes_its_optimizer() -> None:
    outcome = outcomes(_one_rank_without_optimizer, 2)[0]
    assert isinstance(outcome, hp.Timeout)
    assert "rank 1" in str(outcome)


def _init_as(world_size: str) -> None:
    os.environ["HIPRESS_SIZE"] = world_size
    hp.init(timeout=5.0)


def test_a_rank_that_never_arrives_is_named() -> None:
    for outcome in outcomes(_init_as, 2, "3"):
        assert isinstance(outcome, hp.Timeout)
        assert "rank 2" in str(outcome)


def test_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_port()))
        other.listen()
        variables = {"RANK": "0", "SIZE": "1", "LOCAL_RANK": "0", "LOCAL_SIZE": "1", "JOB_TOKEN": "x"}
        for name, value in variables.items():
            monkeypatch.setenv(f"HIPRESS_{name}", value)
        monkeypatch.setenv("HIPRESS_RENDEZVOUS", f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(hp.TransportError, match="in use"):
            hp.init(timeout=2.0)


def _token() -> None:
    # On a busy machine one rank may start seconds before the other. The refusal must end rank 1 at once.
    if os.environ["HIPRESS_RANK"] == "1":
        os.environ["HIPRESS_JOB_TOKEN"] = "another job's"
        hp.init(timeout=60.0)
    hp.init(timeout=6.0)


def test_a_wrong_job_token_is_refused() -> None:
    results = outcomes(_token, 2)
    assert isinstance(results[1], hp.Refused)
    assert "token" in str(results[1])
    assert isinstance(results[0], hp.Timeout)


def _bad_options() -> None:
    for name, value in {"timeout": -1, "partition_bytes": 0, "compute_threads": 0}.items():
        with pytest.raises(hp.InvalidArgument, match=name):
            hp.init(**{name: value})
    os.environ["HIPRESS_TIMEOUT"] = "soon"
    with pytest.raises(hp.InvalidArgument, match="HIPRESS_TIMEOUT='soon'"):
        hp.init()
    del os.environ["HIPRESS_TIMEOUT"]


def test_bad_runtime_options() -> None:
    run(_bad_options, 1)


def _exception_in_backward_leaves_the_optimizer_usable() -> bool:
    hp.init()
    model = mlp()
    optimizer = _wrap(model)

    def fail(_gradient: torch.Tensor) -> torch.Tensor:
        raise ValueError("an error of the user's hook")

    hook = model[0].bias.register_hook(fail)
    with pytest.raises(ValueError, match="an error of the user's hook"):
        loss(model, hp.rank(), 0).backward()
    hook.remove()
    optimizer.zero_grad()
    loss(model, hp.rank(), 1).backward()
    assert optimizer._hipress._clean
    optimizer.step()
    return True


def test_an_exception_in_backward_leaves_the_optimizer_usable() -> None:
    assert run(_exception_in_backward_leaves_the_optimizer_usable, 2) == [True, True]
