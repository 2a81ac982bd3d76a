# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of states with one value for each block: their shapes, their mean, and other numbers of ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import runtime
from hipress.adapter.codec_states import forget_states, load_states, mean_states, own_states
from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.synchronizer import SynchronizationOptions, TensorList
from hipress.errors import InvalidArgument, Mismatch
from tests.adapter.hosts import start
from tests.core.casync.blocks import limits_program
from tests.ranks import Ranks

pytestmark = pytest.mark.slow

run = Ranks("import hipress.adapter.codec_states").run
COUNT = 5 * 1024 + 300
LENGTH = limits_program.blocks(COUNT)
Floats = NDArray[np.float32]
States = Mapping[str, NDArray[Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "limits"


def tensors_of(folder: Path, topology: str, *, whole: bool = False) -> TensorList:
    start([])
    described = [TensorDescription("w", "float32", COUNT, f"[{COUNT}]")]
    codec = limits_program.load(folder, whole=whole)
    return TensorList(described, SynchronizationOptions(codec=codec, partitions=3, topology=topology))


def synchronize(tensors: TensorList, step: int) -> Floats:
    seed = [step, runtime.rank()]
    values = np.random.default_rng(seed).standard_normal(COUNT).astype(np.float32)
    tensors.wait(tensors.engine.submit(tensors.handle(0), values, values))
    return values


def _saved(folder: Path, topology: str, steps: int = 3) -> tuple[dict[str, Any], dict[str, Any]]:
    tensors = tensors_of(folder, topology)
    for step in range(steps):
        synchronize(tensors, step)
    return own_states(tensors), mean_states(tensors)


def _loaded(folder: Path, topology: str, states: Any) -> tuple[dict[str, Any], dict[str, Any], Floats]:
    tensors = tensors_of(folder, topology)
    load_states(tensors, states)
    return own_states(tensors), mean_states(tensors), synchronize(tensors, 3)


def test_a_checkpoint_has_one_value_for_each_block_and_says_so(folder: Path) -> None:
    by_rank = run(_saved, 2, folder, "allgather")
    for own, mean in by_rank:
        for states in (own, mean):
            assert states["w/limit"].shape == (LENGTH,)
            assert states["w/limit:block"].tolist() == [limits_program.BLOCK]
            assert states["w/residual"].shape == (COUNT,)
            assert "w/residual:block" not in states
        assert mean["w/limit"].tobytes() == by_rank[0][1]["w/limit"].tobytes()
    both = np.mean([own["w/limit"] for own, _ in by_rank], axis=0)
    np.testing.assert_allclose(by_rank[0][1]["w/limit"], both, rtol=1e-6)


def test_the_mean_is_over_the_ranks_that_are_workers(folder: Path) -> None:
    by_rank = run(_saved, 3, folder, "ps")
    total, workers = np.zeros(LENGTH), np.zeros(LENGTH)
    for own, _ in by_rank:
        first = 0
        for count, role, _ in own["w:stretches"]:
            blocks = slice(first // limits_program.BLOCK, limits_program.blocks(first + int(count)))
            if role == 1:
                total[blocks] += own["w/limit"][blocks]
                workers[blocks] += 1
            first += int(count)
    assert set(workers) == {2.0}, "each partition has an aggregator and two workers"
    np.testing.assert_allclose(by_rank[0][1]["w/limit"], total / workers, rtol=1e-6)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_any_number_of_ranks_loads_it(folder: Path, world: int, exact: bool) -> None:
    saved = run(_saved, 2, folder, "allgather")
    states = [own for own, _ in saved] if exact else saved[0][1]
    by_rank = run(_loaded, world, folder, "allgather", states)
    for rank, (own, mean, result) in enumerate(by_rank):
        assert result.tobytes() == by_rank[0][2].tobytes()
        if world == 1:  # nothing is encoded, so no state has a place
            assert "w/limit" not in own
            continue
        expected = saved[rank][0] if exact and world == 2 else saved[0][1]
        np.testing.assert_allclose(own["w/limit"], expected["w/limit"], rtol=1e-6)
        np.testing.assert_allclose(mean["w/limit"], saved[0][1]["w/limit"], rtol=1e-6)


def _round_trip(folder: Path) -> tuple[States, States, States]:
    tensors = tensors_of(folder, "ps")
    for step in range(3):
        synchronize(tensors, step)
    saved = own_states(tensors)
    load_states(tensors, saved)
    again = own_states(tensors)
    forget_states(tensors)
    return saved, again, own_states(tensors)


def test_own_states_come_back_to_the_bit_and_can_be_forgotten(folder: Path) -> None:
    for saved, again, forgotten in run(_round_trip, 3, folder):
        assert saved.keys() == again.keys() == forgotten.keys()
        assert all(again[key].tobytes() == values.tobytes() for key, values in saved.items())
        assert saved["w/limit"].any()
        assert not forgotten["w/limit"].any()


def _refused(folder: Path, states: Any, whole: bool) -> tuple[str, bool]:
    tensors = tensors_of(folder, "allgather", whole=whole)
    synchronize(tensors, 0)
    before = own_states(tensors)
    with pytest.raises((InvalidArgument, Mismatch)) as raised:
        load_states(tensors, states)
    after = own_states(tensors)
    return str(raised.value), all(after[key].tobytes() == before[key].tobytes() for key in before)


def test_states_of_other_blocks_are_refused_and_change_nothing(folder: Path) -> None:
    short = run(_saved, 2, folder, "allgather")[0][1]
    long = {**short, "w/limit": limits_program.spread(short["w/limit"], COUNT)}
    del long["w/limit:block"]
    cases: list[tuple[dict[str, Any], bool, str]] = [
        (long, False, "'w/limit' .* one value for each element, and the codec here keeps one for each 256 elements"),
        (short, True, "'w/limit' .* one value for each 256 elements, and the codec here keeps one for each element"),
        ({**short, "w/limit": long["w/limit"]}, False, rf"'w/limit' .* expected float32 of shape \[{LENGTH}\]"),
        ({**short, "w/limit:block": np.array([100])}, False, "'w/limit:block' .* one number that divides 1024"),
        ({**short, "w/limit:block": np.array([256.0])}, False, "'w/limit:block' .* one number that divides 1024"),
        ({**short, "w/residual:block": np.array([4])}, False, "'w/residual' .* must have one value for each element"),
    ]
    for states, whole, says in cases:
        for text, unchanged in run(_refused, 2, folder, states, whole):
            assert re.search(says, text), text
            assert unchanged
