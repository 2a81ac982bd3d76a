# SPDX-License-Identifier: Apache-2.0
"""Averages of which one step is not finite, beside the same averages without that step. Every codec has a tensor of its
own, so that one average shows all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.gpus.side import GpuSide
from tests.compll.programs import BUILTIN, FEEDBACK

States = dict[str, dict[str, Any]]

#: Several partitions of several blocks.
COUNT = 6000
#: Tensors without a codec. They have no states, and decide on those of the others.
EXACT = {"exact": torch.float32, "half": torch.float16}
FACTORS = {"powersgd": "powersgd(min_ratio=1)"}
CODECS = {
    **{name: name for name in [*BUILTIN, "fp16"]},
    **{f"{name} with feedback": f"{name}(error_feedback=true)" for name in FEEDBACK},
    "factors": "onebit(residual_factor=0.5, gradient_factor=0.7)",
    "momentum": "dgc(ratio=0.05, momentum=0.9)",
}
#: The steps that are run; the poisoned ones are left out in the averages beside.
STEPS = range(8)


def codecs(topology: str, *, on_gpu: bool = False) -> dict[str, str]:
    summed = () if topology != "hierarchical" else ("int8_shared", "thc")
    factors = {} if on_gpu or topology != "ps" else FACTORS
    return {name: text for name, text in {**CODECS, **factors}.items() if name not in summed}


def new_average(topology: str, texts: Mapping[str, str], side: GpuSide | None = None) -> GroupAverage:
    hosts = 2 if topology == "hierarchical" else 0
    exact = dict.fromkeys(EXACT, "none")
    options = GroupOptions("none", topology, ranks_per_host=hosts, codec_for={**texts, **exact}, portion_bytes=20_000)
    return GroupAverage(
        {name: TensorShape(COUNT, EXACT.get(name, torch.float32), 2, 60) for name in [*texts, *exact]},
        None,
        options,
        side=side,
    )


def tensors_of(texts: Mapping[str, str], rank: int, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {
        name: torch.randn(COUNT, generator=generator).to(EXACT.get(name, torch.float32)) for name in [*texts, *EXACT]
    }


def step_of(average: GroupAverage, tensors: dict[str, torch.Tensor], step: int) -> dict[str, torch.Tensor]:
    """Averages copies of the tensors, as several buckets."""
    there = {name: each.to(average._side.device).clone() for name, each in tensors.items()}
    named = list(there.items())
    parts = [named[: len(named) // 2], named[len(named) // 2 :]]
    for started in [average.start(part, step) for part in parts]:
        started.wait()
    if average._side.device.type == "cpu":  # the stand-in's streams are not torch's
        average._side.synchronize()
    return {name: each.cpu() for name, each in there.items()}


def same_states(expected: States, found: States, what: Any) -> None:
    for key in expected.keys() | found.keys():
        for state in expected.get(key, {}).keys() | found.get(key, {}).keys():
            # A state that a step made and gave back is zeros; before the step it was not there.
            values = [each.get(key, {}).get(state, np.float32(0)) for each in (expected, found)]
            np.testing.assert_array_equal(*values, err_msg=f"{what}: {key!r} {state}")


Poison = Callable[[dict[str, torch.Tensor], int], None]


def everywhere(value: float, only: int | None = None) -> Poison:
    """In each tensor of rank `only`, or of all ranks, at the end, in the middle and at the begin."""

    def poison(tensors: dict[str, torch.Tensor], rank: int) -> None:
        if only is None or rank == only:
            for each in tensors.values():
                each[[0, COUNT // 2, -1]] = value

    return poison


def in_one(name: str, value: float, only: int) -> Poison:
    def poison(tensors: dict[str, torch.Tensor], rank: int) -> None:
        if rank == only:
            tensors[name][17] = value

    return poison


def too_great(tensors: dict[str, torch.Tensor], rank: int) -> None:
    """All values are finite; their sums are not, nor are the averages in float16."""
    for each in tensors.values():
        each[17] = torch.finfo(each.dtype).max


def pattern(rank: int, topology: str, poisons: Mapping[int, Poison], side: Callable[[], GpuSide] | None = None) -> None:
    """Every rank of a group calls it."""
    texts = codecs(topology, on_gpu=side is not None)
    expected = new_average(topology, texts)
    found = new_average(topology, texts, None if side is None else side())
    for step in STEPS:
        given = tensors_of(texts, rank, step)
        what = (topology, step)
        if step not in poisons:
            wanted, got = step_of(expected, given, step), step_of(found, given, step)
            for name in wanted:
                assert torch.isfinite(got[name]).all(), (*what, name)
                assert torch.equal(wanted[name].view(torch.uint8), got[name].view(torch.uint8)), (*what, name)
            same_states(expected.state_dict(), found.state_dict(), what)
            continue
        before = found.state_dict()
        poisons[step](given, rank)
        got = step_of(found, given, step)
        assert not all(torch.isfinite(each).all() for each in got.values()), what
        same_states(before, found.state_dict(), what)


def absent(rank: int, topology: str, side: Callable[[], GpuSide] | None = None) -> None:
    """Every second tensor is zeros on all ranks in some steps; in the averages beside it does not take part there.
    Every rank of a group calls it."""
    texts = codecs(topology, on_gpu=side is not None)
    expected = new_average(topology, texts)
    found = new_average(topology, texts, None if side is None else side())
    without = [*list(texts)[::2], "exact"]
    for step in range(6):
        given = tensors_of(texts, rank, step)
        what = (topology, step)
        if step in (0, 2, 3):
            for name in without:
                given[name].zero_()
            wanted = step_of(expected, {name: given[name] for name in given if name not in without}, step)
            wanted.update({name: torch.zeros_like(given[name]) for name in without})
        else:
            wanted = step_of(expected, given, step)
        got = step_of(found, given, step)
        for name in wanted:
            assert torch.equal(wanted[name].view(torch.uint8), got[name].view(torch.uint8)), (*what, name)
        same_states(expected.state_dict(), found.state_dict(), what)


#: Three in a row, and one more after finite steps.
_POISONS: list[dict[int, Poison]] = [
    {1: everywhere(math.nan, 1), 2: everywhere(math.inf), 3: everywhere(-math.inf, 0), 6: too_great},
    {
        0: in_one("exact", math.inf, 0),
        2: in_one("half", math.nan, 1),
        4: in_one("fp16", 1e6, 0),
        5: in_one("onebit", math.inf, 1),
        6: in_one("dgc", math.nan, 0),
    },
]


def steps_that_do_not_count(rank: int, topology: str, side: Callable[[], GpuSide] | None = None) -> None:
    """Every rank of a group calls it."""
    for poisons in _POISONS:
        pattern(rank, topology, poisons, side)
    absent(rank, topology, side)
