# SPDX-License-Identifier: Apache-2.0
"""Averages of the same tensors on the processor and on a GPU, or a stand-in for one, which must be equal to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hipress
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.gpus.side import GpuSide

SIGNSGD = Path(__file__).parents[3] / "examples" / "compll" / "signsgd.cll"
STEPS = 3
COUNTS = {
    "a": 5000,
    "none": 0,
    "one": 1,
    "seven": 7,
    "b": 40_000,
    "half": 3001,
    "bfloat": 2000,
    "fine": 1501,
    "rough": 999,
}
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "fine": torch.float64, "rough": torch.bfloat16}
#: Without a codec.
EXACT = dict.fromkeys(["seven", "fine", "rough"], "none")
CODECS = [
    "onebit(block=64)",
    "tbq(threshold=0.3, gradient_factor=0.7)",
    "int8",
    "terngrad",
    "fp16",
    "int4(block=100)",
    "dgc(ratio=0.05)",
]
SUMMED = [
    "int8_shared",
    "int8_shared(gradient_factor=0.7)",
    "int8_shared(stochastic=true, levels=20, block=100)",
    "thc",
    "thc(levels=7)",
]


def tensors_of(rank: int, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {
        name: torch.randn(count, generator=generator, dtype=torch.float64).to(DTYPES.get(name, torch.float32))
        for name, count in COUNTS.items()
    }


def average_of(options: GroupOptions, side: GpuSide | None = None) -> GroupAverage:
    given = tensors_of(0, 0)
    shapes = {name: TensorShape(each.numel(), each.dtype, 2) for name, each in given.items()}
    return GroupAverage(shapes, None, options, side=side)


def _steps(rank: int, average: GroupAverage) -> list[dict[str, torch.Tensor]]:
    results = []
    for step in range(STEPS):
        # The GPU still computes these tensors when the average starts; it must not read them too early.
        tensors = {name: each.to(average._side.device).neg().neg() for name, each in tensors_of(rank, step).items()}
        # Two batches in flight, as DistributedDataParallel's buckets are.
        named = list(tensors.items())
        for started in [average.start(named[:3], step), average.start(named[3:], step)]:
            value = started.wait()
            # Without a tensor no stream of a GPU would wait.
            assert isinstance(value, torch.Tensor) == (average._side.device.type == "cuda")
        if average._side.device.type == "cpu":  # the stand-in's streams are not torch's
            average._side.synchronize()
        results.append({name: each.cpu() for name, each in tensors.items()})
    return results


def _same(rank: int, expected: GroupAverage, found: GroupAverage, codec: Any) -> None:
    """Checks results, states and sent bytes of some steps."""
    for step, (wanted, given) in enumerate(zip(_steps(rank, expected), _steps(rank, found), strict=True)):
        for name in wanted:
            assert torch.equal(wanted[name].view(torch.uint8), given[name].view(torch.uint8)), (codec, step, name)
    _same_states(expected, found, codec)


def _same_states(expected: GroupAverage, found: GroupAverage, codec: Any) -> None:
    before, after = expected.state_dict(), found.state_dict()
    assert before.keys() == after.keys()
    for key, states in before.items():
        for state, values in states.items():
            np.testing.assert_array_equal(values, after[key][state], err_msg=f"{codec} {key} {state}")


def as_on_the_processor(
    rank: int, world: int, topology: str, new_side: Callable[[], GpuSide], codecs: Sequence[str] = ()
) -> None:
    """Every rank of a group of `world` calls it. `codecs`: without them all of CODECS, and signsgd."""
    hosts = topology == "hierarchical"
    # signsgd merges an owner's values as decoded from its message, too, which sums of some ranks do not allow.
    votes = [hipress.load_codec(SIGNSGD)] if topology in ("ps", "allgather") else []
    for codec in codecs or [*CODECS, *votes]:
        options = GroupOptions(
            codec,
            topology,
            ranks_per_host=2 if hosts else 0,
            min_compress_bytes=0,
            codec_for=EXACT,
            portion_bytes=4000,
        )
        expected, found = average_of(options), average_of(options, new_side())
        _same(rank, expected, found, codec)
        # Slots are padded for a GPU, by less than 16 bytes each.
        assert expected.sent_bytes <= found.sent_bytes <= expected.sent_bytes + 16 * STEPS * len(COUNTS) * 4 * world
        before = expected.state_dict()
        found.load_state_dict(before)
        assert found.state_dict().keys() == before.keys()


def summed_as_on_the_processor(rank: int, new_side: Callable[[], GpuSide], codecs: Sequence[str] = ()) -> None:
    """The same for codecs whose encoded values are added. Every rank calls it."""
    for codec in codecs or SUMMED:
        options = GroupOptions(codec, min_compress_bytes=0, codec_for={**EXACT, "half": "onebit"})
        expected, found = average_of(options), average_of(options, new_side())
        _same(rank, expected, found, codec)
        found.load_state_dict(expected.state_dict())
        # If one rank has a value that is not finite, all ranks get NaN, and no rank changes its states.
        for average in (expected, found):
            tensors = tensors_of(rank, STEPS)
            if rank == 1:
                tensors["b"][17] = float("inf")
            tensors = {name: each.to(average._side.device) for name, each in tensors.items()}
            average.start(list(tensors.items()), STEPS).wait()
            if average._side.device.type == "cpu":
                average._side.synchronize()
            assert torch.isnan(tensors["b"]).all()
            assert torch.isfinite(tensors["a"]).all()
        _same_states(expected, found, codec)
