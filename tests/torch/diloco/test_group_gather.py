# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo's messages over a process group: their bytes, their order with training, and their errors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import hipress.torch as hp
from hipress.torch.diloco import SparseLoCo, group_gather
from hipress.torch.diloco.group_gather import GroupGather
from hipress.torch.diloco.group_ranks import GroupRanks
from hipress.torch.diloco.left_ranks import LeftRanks
from hipress.torch.diloco.sparseloco import SparseAveraging
from tests.torch.ddp.training import process_group
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _until(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)


def _sent(folder: str, adaptive: bool) -> tuple[int, int, int]:
    """What a rank sends of 1,052,672 parameters; the bytes of its message, and of the buffer."""
    with process_group(folder) as (rank, _):
        shapes = {"a.weight": (512, 1024), "b.weight": (1024, 512), "a.bias": (512,), "b.bias": (1024,)}
        parameters = {name: torch.zeros(shape) for name, shape in shapes.items()}
        averaging = SparseAveraging(parameters, [list(shapes)], SparseLoCo(adaptive=adaptive))
        averaging.enter(GroupRanks(dist.group.WORLD))
        generator = torch.Generator().manual_seed(rank)
        values = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        message = averaging._messages[0]
        payload, _ = message.encoded(values)
        averaging.start(0, values, 0)()
        used = int(payload.nonzero().max()) + 1
        assert isinstance(averaging._gather, GroupGather)
        sent = averaging._gather.sent_bytes
        del averaging
        return sent, used, message.bytes


@pytest.mark.parametrize(("adaptive", "fewer"), [(True, 230), (False, 200)])
def test_only_used_bytes_travel(adaptive: bool, fewer: int, tmp_path: Path) -> None:
    world = 3
    for sent, used, whole in run(_sent, world, str(tmp_path), adaptive):
        assert sent == (world - 1) * (used + 8)
        assert used < 0.9 * whole if adaptive else used > 0.99 * whole
        assert used * fewer < 4 * (2 * 512 * 1024 + 512 + 1024)


def _buffers(folder: str) -> list[list[int]]:
    """Two fragments that are on their way at once; messages of other lengths on each rank, and of zeros only."""
    with process_group(folder) as (rank, _):
        gather = GroupGather(dist.group.WORLD, [6, 3], LeftRanks(dist.group.WORLD))
        message = torch.zeros(6, dtype=torch.uint8)
        message[: 2 * rank] = torch.arange(1, 2 * rank + 1)
        first = gather(0, message)
        second = gather(1, torch.tensor([0, 0, rank], dtype=torch.uint8))
        found = [each.tolist() for wait in (first, second) for each in wait()]
        assert first() is first()
        del gather
        return found


@pytest.mark.parametrize("world", [1, 3])
def test_every_rank_gets_every_buffer(world: int, tmp_path: Path) -> None:
    wanted = [[0] * 6, [1, 2, 0, 0, 0, 0], [1, 2, 3, 4, 0, 0]][:world] + [[0, 0, each] for each in range(world)]
    assert run(_buffers, world, str(tmp_path)) == [wanted] * world


def _while_the_other_trains(folder: str) -> list[list[int]]:
    with process_group(folder) as (rank, _):
        gather = GroupGather(dist.group.WORLD, [1], LeftRanks(dist.group.WORLD))
        begun = Path(folder, "begun")
        if rank == 1:
            _until(begun)  # rank 0's call has returned before this rank has sent anything
        wait = gather(0, torch.tensor([rank + 1], dtype=torch.uint8))
        begun.touch()
        # A collective of the program in between, on the same group.
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == 2
        found = [each.tolist() for each in wait()]
        del gather, wait
        return found


def test_training_goes_on_while_messages_travel(tmp_path: Path) -> None:
    assert run(_while_the_other_trains, 2, str(tmp_path)) == [[[1], [2]]] * 2


def _announces_too_much(folder: str) -> str:
    with process_group(folder) as (rank, _):
        averaging = SparseAveraging({"w": torch.zeros(70, 70)}, [["w"]], SparseLoCo(adaptive=False))
        averaging.enter(GroupRanks(dist.group.WORLD))
        averaging.start(0, {"w": torch.randn(70, 70)}, 0)()
        before = averaging.residuals()["w"].clone()
        honest: Any = group_gather._used
        if rank == 1:
            group_gather._used = lambda message: message.numel() + 1
        try:
            with pytest.raises(hp.CorruptPayload) as raised:
                averaging.start(0, {"w": torch.randn(70, 70)}, 0)()
        finally:
            group_gather._used = honest
        assert before.any()
        assert torch.equal(averaging.residuals()["w"], before)
        del averaging
        return str(raised.value)


def test_a_size_that_no_message_has_is_refused(tmp_path: Path) -> None:
    for said in run(_announces_too_much, 2, str(tmp_path)):
        assert said.startswith("rank 1 of 2 announces a message of ")
        assert "about fragment 0, which has at most " in said


def _silent(folder: str) -> str:
    with process_group(folder, timeout=6.0) as (rank, _):
        averaging = SparseAveraging({"w": torch.zeros(9, 9)}, [["w"]], SparseLoCo())
        averaging.enter(GroupRanks(dist.group.WORLD))
        over = Path(folder, "over")
        if rank == 1:
            _until(over)
            del averaging
            return ""
        with pytest.raises(hp.TransportError) as raised:
            averaging.start(0, {"w": torch.ones(9, 9)}, 0)()
        over.touch()
        assert not averaging.residuals()["w"].any()
        del averaging
        return str(raised.value)


def test_a_silent_rank_is_an_error_within_the_groups_timeout(tmp_path: Path) -> None:
    start = time.monotonic()
    said = run(_silent, 2, str(tmp_path))[0]
    assert said.startswith("the process group failed on rank 0 of 2 while it gathered fragment 0: ")
    assert time.monotonic() - start < 60
