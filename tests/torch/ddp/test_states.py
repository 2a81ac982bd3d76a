# SPDX-License-Identifier: Apache-2.0
"""Codec states are saved and restored to the bit, and move to another number of ranks without loss."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress import _core
from hipress.torch import ddp
from hipress.torch.process_groups.layout import Compressed, Layout
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.states.resharding import states_for
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: Every built-in codec with states, for one layer each.
STATEFUL = ["onebit", "tbq", "dgc(ratio=0.05)", "graddrop(ratio=0.05)", "int8(error_feedback=true)", "int4"]


def _steps(model: DistributedDataParallel, rank: int, steps: range) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in steps:
        inputs, wanted = training.batch(rank, step)
        optimizer.zero_grad()
        (model(inputs) - wanted).square().mean().backward()
        optimizer.step()


@training.in_process_group
def _interrupted(rank: int, codec: str) -> tuple[bytes, bytes, bytes]:
    """The parameters after six steps without a restart, with a restart in the middle, and with a restart that forgets
    the states."""
    torch.manual_seed(0)
    model = DistributedDataParallel(training.Net(), bucket_cap_mb=0.3)
    state = ddp.compress(model, codec)
    _steps(model, rank, range(3))
    saved = pickle.dumps((model.module.state_dict(), state.state_dict(), state))
    _steps(model, rank, range(3, 6))
    results = [training.fingerprint(model)]
    for restores in (True, False):
        parameters, remembered, unpickled = pickle.loads(saved)
        with pytest.raises(hp.NotInitialized):
            unpickled.load_state_dict(remembered)
        assert unpickled.state_dict()["steps"] == 3
        net = training.Net()
        net.load_state_dict(parameters)
        again = DistributedDataParallel(net, bucket_cap_mb=0.3)
        new = ddp.HookState(again, codec)
        again.register_comm_hook(new, ddp.hook)
        if restores:
            new.load_state_dict(remembered)
        _steps(again, rank, range(3, 6))
        results.append(training.fingerprint(again))
    return results[0], results[1], results[2]


@training.in_process_group
def _half(rank: int, carrier: Any, halves: list[tuple[bytes, bytes]] | None) -> tuple[bytes, bytes]:
    """Without `halves`: trains for fifty steps, saves, and trains for fifty more. With `halves`: loads, and trains for
    the last fifty steps. Returns the saved state and the final parameters."""
    if carrier == "hipress":
        hp.init()
    torch.manual_seed(0)
    layers = [torch.nn.Linear(40, 40) for _ in STATEFUL]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(40, 1))
    model = DistributedDataParallel(net)
    codecs = {f"{number}.weight": codec for number, codec in enumerate(STATEFUL)}
    state = ddp.compress(model, "none", carrier=carrier, codec_for=codecs, min_compress_bytes=1024)
    saved = b""
    if halves is None:
        _steps(model, rank, range(50))
        saved = pickle.dumps((net.state_dict(), state.state_dict()))
    else:
        parameters, states = pickle.loads(halves[rank][0])
        net.load_state_dict(parameters)
        state.load_state_dict(states)
    assert state.steps == 50
    _steps(model, rank, range(50, 100))
    return saved, training.fingerprint(model)


@pytest.mark.parametrize("carrier", ["group", "hipress"])
def test_fifty_steps_saved_and_fifty_more_equal_a_hundred_to_the_bit(tmp_path: Path, carrier: str) -> None:
    for each in ("straight", "resumed"):
        (tmp_path / each).mkdir()
    straight = run(_half, 2, str(tmp_path / "straight"), carrier, None)
    resumed = run(_half, 2, str(tmp_path / "resumed"), carrier, straight)
    assert [parameters for _, parameters in resumed] == [parameters for _, parameters in straight]


@pytest.mark.parametrize("codec", ["onebit", "dgc(ratio=0.05)"])
def test_a_restart_with_the_states_changes_nothing(tmp_path: Path, codec: str) -> None:
    for straight, restored, forgotten in run(_interrupted, 2, str(tmp_path), codec):
        assert restored == straight
        assert forgotten != straight


def _held_back(tensors: list[Compressed], saved: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    """The sum that all residuals add to the next average."""
    total = np.zeros(sum(each.count for each in tensors))
    starts = dict(zip([each.name for each in tensors], np.cumsum([0, *(each.count for each in tensors)]), strict=False))
    for states in saved:
        for key, values in states.items():
            name, role, first, count = key.split("\n")
            start = starts[name] + int(first)
            share = 1 / len(saved) if role == "worker" else 1.0
            total[start : start + int(count)] += np.asarray(values["residual"], np.float64) * share
    return total


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (3, 5), (4, 1), (1, 3)])
@pytest.mark.parametrize("topology", ["ps", "allgather", "ring", "butterfly"])
def test_no_residual_is_lost_between_numbers_of_ranks(before: int, after: int, topology: str) -> None:
    codec = _core.create_codec("onebit")
    tensors = [Compressed("a", 200_000, codec), Compressed("b", 5000, codec), Compressed("c", 70_001, codec)]
    random = np.random.default_rng(before * 10 + after)
    saved: list[dict[str, Any]] = []
    for rank in range(before):
        states = {}
        for partition in Layout(tensors, Ranks(rank, before, topology)).partitions:
            role = "aggregator" if partition.owner == rank and topology != "allgather" else "worker"
            key = f"{tensors[partition.tensor].name}\n{role}\n{partition.first}\n{partition.count}"
            states[key] = {"residual": random.standard_normal(partition.count).astype(np.float32)}
        saved.append(states)
    new = [states_for(tensors, saved, Ranks(rank, after, topology)) for rank in range(after)]
    np.testing.assert_allclose(_held_back(tensors, new), _held_back(tensors, saved), rtol=1e-5, atol=1e-5)


@training.in_process_group
def _four_then_two(rank: int, states: list[dict[str, Any]]) -> dict[str, Any]:
    torch.manual_seed(0)
    model = DistributedDataParallel(training.Net())
    state = ddp.compress(model, "onebit")
    if states:
        # States of another rank or another number of ranks are refused here, because their residuals would be lost.
        with pytest.raises(
            hp.InvalidArgument, match=f"of rank {rank} of 4, and this is rank {rank} of 2.*load_states_of"
        ):
            state.load_state_dict(states[rank])
        assert (state.steps, state.state_dict()["states"]) == (0, {})
        state.load_states_of(states)
        of_all = state.states_of_all()
        with pytest.raises(hp.InvalidArgument, match=f"of rank {1 - rank} of 2, and this is rank {rank} of 2"):
            state.load_state_dict(of_all[1 - rank])
        state.load_state_dict(of_all[rank])
        return state.state_dict()
    _steps(model, rank, range(3))
    return state.state_dict()


def test_states_of_four_ranks_serve_two(tmp_path: Path) -> None:
    for each in ("four", "two"):
        (tmp_path / each).mkdir()
    four = run(_four_then_two, 4, str(tmp_path / "four"), [])
    two = run(_four_then_two, 2, str(tmp_path / "two"), four)
    codec = _core.create_codec("onebit")
    sizes = {name: each.numel() for name, each in training.Net().named_parameters() if each.dim() > 1}
    tensors = [Compressed(name, count, codec) for name, count in sizes.items() if 4 * count >= 4096]
    before = _held_back(tensors, [each["states"] for each in four])
    after = _held_back(tensors, [each["states"] for each in two])
    assert np.abs(before).sum() > 0
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    assert [each["steps"] for each in two] == [3, 3]


@training.in_process_group
def _wrong_states(_rank: int) -> None:
    state = ddp.compress(DistributedDataParallel(training.Net()), "onebit")
    for wrong in (
        {"other\nworker\n0\n4": {"residual": np.zeros(4)}},
        {"first.weight\nworker\n0\n99999": {"residual": np.zeros(99999)}},
        {"first.weight\nworker\n0\n12": {"residual": np.zeros(3)}},
        {"first.weight": {"residual": np.zeros(3)}},
    ):
        with pytest.raises(hp.InvalidArgument):
            state.load_state_dict({"steps": 1, "states": wrong})
    assert (state.steps, state.state_dict()["states"]) == (0, {})


def test_states_of_another_model_are_refused(tmp_path: Path) -> None:
    run(_wrong_states, 2, str(tmp_path))
