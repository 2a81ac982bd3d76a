# SPDX-License-Identifier: Apache-2.0
"""A group of the backend "hipress" compresses gradients, which were handed to it by name, and nothing else."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import hipress.torch as hp
from hipress.torch import fsdp
from hipress.torch.process_groups import BackendOptions, CompressingGroup, gradients
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _group(codec: str, **options: Any) -> CompressingGroup:
    group = dist.new_group(backend="hipress", pg_options=BackendOptions(codec, **options))
    assert isinstance(group, CompressingGroup)
    return group


class _Inner:
    """Counts the calls that reach Gloo."""

    def __init__(self, group: CompressingGroup) -> None:
        self._inner, self.allreduces, self.others = group._inner, 0, 0
        group._inner = self

    def allreduce(self, *arguments: Any) -> Any:
        self.allreduces += 1
        return self._inner.allreduce(*arguments)

    def __getattr__(self, name: str) -> Any:
        self.others += 1
        return getattr(self._inner, name)


@training.in_process_group
def _metrics(rank: int) -> None:
    group = _group("onebit")
    inner = _Inner(group)
    generator = torch.Generator().manual_seed(rank)
    for step in range(2):
        with gradients("g"):
            dist.all_reduce(torch.randn(5000, generator=generator), group=group)
        # A confusion matrix of 1,024 classes.
        confusion = torch.zeros(1024, 1024)
        confusion[rank, 7] = 3.0 + step
        dist.all_reduce(confusion, group=group)
        assert confusion.sum() == 2 * (3.0 + step)
        assert confusion[0, 7] == confusion[1, 7] == 3.0 + step
        # The sums of SyncBatchNorm's backward pass, of 4,096 channels.
        sums = torch.full((2 * 4096,), 1.0 + 2.0**-12 * rank)
        dist.all_reduce(sums, group=group)
        assert torch.equal(sums, torch.full_like(sums, 2.0 + 2.0**-12))
    assert inner.allreduces == 4
    assert inner.others == 0  # no rank compared anything with the others


def test_metrics_and_statistics_on_the_group_of_the_gradients_are_exact(tmp_path: Path) -> None:
    run(_metrics, 2, str(tmp_path))


@training.in_process_group
def _two_of_one_size(rank: int) -> tuple[float, float]:
    """The norm of the sums of b, which is all zeros, and what stays of a."""
    group = _group("onebit")
    a = torch.randn(5000, generator=torch.Generator().manual_seed(rank))
    total, sent = torch.zeros(5000), torch.zeros(5000)
    # As torchft's fragments are named, whose method starts the all-reduce.
    exchange = gradients("b")(lambda tensor: dist.all_reduce(tensor, group=group))
    for _ in range(6):
        first, second = a.clone(), torch.zeros(5000)
        with gradients("a"):
            dist.all_reduce(first, group=group)
        exchange(second)
        sent += first
        total += second.abs()
    return float(total.norm()), float(sent.norm())


def test_two_gradients_of_one_size_share_no_residual(tmp_path: Path) -> None:
    for zeros, sums in run(_two_of_one_size, 2, str(tmp_path)):
        assert zeros == 0.0
        assert sums > 0.0


@training.in_process_group
def _changing_sizes(rank: int) -> None:
    group = _group("onebit")
    with gradients("g"):
        dist.all_reduce(torch.ones(5000), group=group)
    inner, before = _Inner(group), group.state_dict()
    for step in range(30):
        tokens = torch.full((5000 + 100 * step,), rank + 1.0)
        dist.all_reduce(tokens, group=group)
        assert torch.equal(tokens, torch.full_like(tokens, 3.0))
    assert (inner.allreduces, inner.others) == (30, 0)
    after = group.state_dict()
    assert after["tensors"] == before["tensors"]
    assert list(after["states"]) == list(before["states"])


def test_tensors_of_changing_sizes_leave_nothing_behind_and_need_no_agreement(tmp_path: Path) -> None:
    run(_changing_sizes, 2, str(tmp_path))


@training.in_process_group
def _in_turn(rank: int) -> Any:
    """Averages two gradients with onebit's error feedback, now the one first and now the other.

    Returns the sums of ten averages, the inputs, and the states.
    """
    group = _group("onebit")
    totals = [torch.zeros(3000), torch.zeros(3000)]
    inputs = [torch.randn(3000, generator=torch.Generator().manual_seed(10 * rank + each)) for each in range(2)]
    for step in range(10):
        for number in (0, 1) if step % 2 else (1, 0):
            tensor = inputs[number].clone()
            with gradients(f"g{number}"):
                dist.all_reduce(tensor, op=dist.ReduceOp.AVG, group=group)
            totals[number] += tensor
    return [each.numpy() for each in totals], [each.numpy() for each in inputs], group.state_dict()


def test_a_residual_belongs_to_a_name_in_whatever_order_gradients_come(tmp_path: Path) -> None:
    results = run(_in_turn, 2, str(tmp_path))
    assert results[0][2]["steps"] == {"g0": 10, "g1": 10}
    for number, name in enumerate(("g0", "g1")):
        exact = 10 * sum(inputs[number].astype(np.float64) for _, inputs, _ in results) / 2
        total = results[0][0][number].astype(np.float64)
        for _, _, saved in results:
            for key, values in saved["states"].items():
                of, role, first, count = key.split("\n")
                if of == name:
                    share = 1 / 2 if role == "worker" else 1.0
                    total[int(first) : int(first) + int(count)] += share * values["residual"]
        np.testing.assert_allclose(total, exact, rtol=1e-4, atol=1e-4)


@training.in_process_group
def _two_of_one_name(rank: int) -> None:
    first, second = torch.ones(5000), torch.full((5000,), 2.0)
    with_states, other, without_states = _group("onebit"), _group("onebit"), _group("fp16")
    with gradients("both"):
        dist.all_reduce(first, group=with_states)
        with pytest.raises(hp.InvalidArgument, match=r"all-reduce 2 within gradients\('both'\).*write `with gradients"):
            dist.all_reduce(second, group=with_states)
        assert torch.equal(second, torch.full((5000,), 2.0))
        dist.all_reduce(second, group=other)
    with gradients("both"):
        dist.all_reduce(first, group=with_states)
        for _ in range(2):
            dist.all_reduce(second, group=without_states)
    assert torch.equal(second, torch.full((5000,), 16.0))
    assert without_states.state_dict()["steps"] == {"both": 1, "both, tensor 2": 1}


def test_a_second_tensor_of_one_name_is_refused_where_it_would_take_a_residual(tmp_path: Path) -> None:
    run(_two_of_one_name, 2, str(tmp_path))


@training.in_process_group
def _complex(rank: int) -> None:
    """A complex matrix is compressed as its pairs of real numbers are, and a complex vector is exact."""
    group, of_pairs = _group("onebit"), _group("onebit")
    generator = torch.Generator().manual_seed(rank)
    matrix = torch.randn(64, 64, generator=generator, dtype=torch.complex64)
    pairs = torch.view_as_real(matrix).clone()
    for step in range(2):
        with gradients({"w": matrix.shape}):
            dist.all_reduce(matrix, group=group)
        with gradients({"w": pairs.shape}):
            dist.all_reduce(pairs, group=of_pairs)
        assert torch.equal(torch.view_as_real(matrix), pairs), step
    assert group.sent_bytes == of_pairs.sent_bytes > 0
    flat = torch.full((64 * 64 + 10,), 1.0 + 2.0j)
    with gradients({"w": (64, 64), "bias": (10,)}):
        dist.all_reduce(flat, group=group)
    assert torch.equal(flat[-10:], torch.full((10,), 2.0 + 4.0j))
    wrong = torch.ones(64 * 64 + 1, dtype=torch.complex64)
    refused = pytest.raises(hp.InvalidArgument, match="shapes of 4096 elements for 'w', and the all-reduce has 8194")
    with refused, gradients({"w": (64, 64)}):
        dist.all_reduce(wrong, group=group)


def test_shapes_of_complex_gradients_are_their_own(tmp_path: Path) -> None:
    run(_complex, 2, str(tmp_path))


@training.in_process_group
def _restarted(rank: int) -> None:
    inputs = [torch.randn(3000, generator=torch.Generator().manual_seed(rank)) for _ in range(2)]

    def steps(group: CompressingGroup, count: int) -> torch.Tensor:
        for _ in range(count):
            for number, values in enumerate(inputs):
                last = values.clone()
                with gradients(f"g{number}"):
                    dist.all_reduce(last, group=group)
        return last

    straight, again = _group("onebit"), _group("onebit")
    steps(straight, 3)
    again.load_state_dict(straight.state_dict())
    assert torch.equal(steps(straight, 2), steps(again, 2))


def test_a_restart_with_the_states_changes_nothing(tmp_path: Path) -> None:
    run(_restarted, 2, str(tmp_path))


@training.in_process_group
def _regrouped(rank: int) -> None:
    """Two gradients that travel together, then in two tensors, as DistributedDataParallel does after its first step."""
    group, alone = _group("onebit"), _group("onebit")
    generator = torch.Generator().manual_seed(rank)
    shapes = {"weight": (40, 50), "bias": (2000,), "head": (30, 100)}
    for step in range(4):
        values = {name: torch.randn(np.prod(shape).item(), generator=generator) for name, shape in shapes.items()}
        wanted = {name: each.clone() for name, each in values.items()}
        for name, each in wanted.items():
            with gradients({name: shapes[name]}):
                dist.all_reduce(each, group=alone)
        for names in [["weight", "bias", "head"]] if step == 0 else [["head"], ["weight", "bias"]]:
            flat = torch.cat([values[name] for name in names])
            with gradients({name: shapes[name] for name in names}):
                dist.all_reduce(flat, group=group)
            for name, found in zip(names, flat.split([values[name].numel() for name in names]), strict=True):
                assert torch.equal(found, wanted[name]), (step, name)
    names = {key.split("\n")[0] for key in group.state_dict()["states"]}
    assert names == {"weight", "head"}  # a vector is exact
    vectors = _group("onebit", compress_vectors=True)
    with gradients({"bias": (2000,)}):
        dist.all_reduce(torch.randn(2000), group=vectors)
    assert vectors.sent_bytes > 0


def test_a_residual_follows_its_gradient_into_another_flat_tensor(tmp_path: Path) -> None:
    run(_regrouped, 2, str(tmp_path))


@training.in_process_group
def _other_threads(rank: int) -> None:
    group = _group("onebit")
    metric = torch.randn(5000, generator=torch.Generator().manual_seed(rank))
    exact = sum(torch.randn(5000, generator=torch.Generator().manual_seed(each)) for each in range(2))
    with gradients("g"):
        thread = threading.Thread(target=dist.all_reduce, args=(metric,), kwargs={"group": group})
        thread.start()
        thread.join()
    torch.testing.assert_close(metric, exact)


def test_a_metric_of_another_thread_is_exact_while_gradients_travel(tmp_path: Path) -> None:
    run(_other_threads, 2, str(tmp_path))


def _sharded() -> tuple[nn.Module, CompressingGroup]:
    chosen = {"rep": ("hipress", BackendOptions("onebit"))}
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"), backend_override=chosen)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
    fully_shard(net[0], mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net, mesh["rep"].get_group()


def _backward(net: nn.Module, rank: int, step: int) -> None:
    net(training.batch(rank, step)[0]).square().mean().backward()


@training.in_process_group
def _hybrid_with_metrics(rank: int) -> None:
    net, group = _sharded()
    state = fsdp.compress_hybrid(net)
    for step in range(3):
        _backward(net, rank, step)
        metric = torch.full((16_000,), 1.0 + 2.0**-12 * rank)  # as many elements as a unit has
        dist.all_reduce(metric, group=group)
        assert torch.equal(metric, torch.full_like(metric, 2.0 + 2.0**-12))
    saved = state.state_dict()["groups"][0]
    assert saved["steps"] == dict.fromkeys(("0.weight", "0.bias", "2.weight", "2.bias"), 3)
    assert {key.split("\n")[0] for key in saved["states"]} == {"0.weight", "2.weight"}
    # Each rank sends half of two matrices to their owner, and half of the averages.
    assert 3 * 32_000 / 8 < state.sent_bytes < 3 * 32_000 / 8 * 1.1


def test_fsdp2_hands_over_its_gradients_by_the_parameters_names(tmp_path: Path) -> None:
    run(_hybrid_with_metrics, 2, str(tmp_path))


@training.in_process_group
def _hybrid_restarted(rank: int) -> None:
    straight, again = _sharded()[0], _sharded()[0]
    states = [fsdp.compress_hybrid(net) for net in (straight, again)]
    for step in range(3):
        _backward(straight, rank, step)
    states[1].load_state_dict(states[0].state_dict())
    for net in (straight, again):
        net.zero_grad()
        _backward(net, rank, 3)
    for first, second in zip(straight.parameters(), again.parameters(), strict=True):
        assert torch.equal(first.grad.to_local(), second.grad.to_local())


def test_a_restart_of_fsdp2_over_the_backend_changes_nothing(tmp_path: Path) -> None:
    run(_hybrid_restarted, 2, str(tmp_path))


@training.in_process_group
def _hybrid_misused(rank: int) -> list[str]:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hipress").addHandler(handler)
    group = _group("onebit")
    dist.all_reduce(torch.ones(5000), group=group)
    dist.destroy_process_group(group)
    del group
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"))
    net = fully_shard(nn.Linear(40, 400), mesh=mesh)
    with pytest.raises(hp.InvalidArgument, match=r"over replicas with the backend 'gloo': .*backend_override"):
        fsdp.compress_hybrid(net)
    net = fully_shard(nn.Linear(40, 400), mesh=init_device_mesh("cpu", (2,)))
    with pytest.raises(hp.InvalidArgument, match=r"mesh of one dimension.* call compress_replicas"):
        fsdp.compress_hybrid(net)
    return said


def test_a_codec_that_met_no_gradient_is_named_at_the_end_and_wrong_meshes_at_once(tmp_path: Path) -> None:
    for said in run(_hybrid_misused, 2, str(tmp_path)):
        assert len(said) == 1, said
        assert "'onebit' has compressed nothing" in said[0]
        assert "hipress.torch.fsdp.compress_hybrid(model)" in said[0]
