# SPDX-License-Identifier: Apache-2.0
"""A refused message of a group of CPU tensors: the ranks that need its values raise in the step, and nobody waits for
the group's timeout. test_gpu_side.py has the same for GPUs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress.torch.process_groups import GroupAverage, GroupOptions, group_calls
from hipress.torch.process_groups.dtypes import TensorShape
from tests.torch.ddp import training
from tests.torch.ranks import run

#: Half of the group's timeout (seconds).
IN_TIME = 30.0


@training.in_process_group
def _refused(rank: int, second: bool) -> tuple[str, float]:
    """The error after rank 0 has damaged the header of its contribution to 'v', or of the average of 'w', and the
    seconds until it came."""
    shapes = dict.fromkeys(("w", "v"), TensorShape(9000, torch.float32, 2))  # rank 0 owns w, rank 1 owns v
    average = GroupAverage(shapes, None, GroupOptions("onebit", "ps"))
    send, calls = group_calls.all_to_all, [0]

    def damage(group: Any, output: torch.Tensor, given: torch.Tensor, *sizes: list[int]) -> Any:
        calls[0] += 1
        if rank == 0 and calls[0] == 1 + second:
            given.view(-1)[8] = 7
        return send(group, output, given, *sizes)

    tensors = {name: torch.randn(9000) for name in shapes}
    start = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_calls, "all_to_all", damage)
        done = average.start(list(tensors.items()), 0)
        if second and rank == 0:
            done.wait()
            return "", time.monotonic() - start
        with pytest.raises(Exception, match=r"element count|has refused"):
            done.wait()
    with pytest.raises(hp.CorruptPayload) as refused:
        average.raise_error()
    assert not tensors["w" if second else "v"].any()
    return str(refused.value), time.monotonic() - start


@pytest.mark.parametrize("second", [False, True])
def test_ranks_raise_in_the_step_and_name_the_sender(tmp_path: Path, second: bool) -> None:
    (sender, _), (receiver, _) = found = run(_refused, 2, str(tmp_path), second)
    what = (
        f"tensor '{'w' if second else 'v'}', partition 0, from rank 0 of the group: wire header: element count is 8967"
    )
    assert what in receiver
    assert sender == "" or "from rank 1 of the group: it has refused the contribution of rank 0" in sender
    assert bool(sender) != second
    assert all(seconds < IN_TIME for _, seconds in found)
