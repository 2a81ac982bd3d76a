# SPDX-License-Identifier: Apache-2.0
"""Parameters and gradients of all ranks from a noisy quadratic problem, so no model's rounding disturbs the
comparison."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

import hipress.torch as hp
from tests.torch.ddp.training import process_group

Values = dict[str, NDArray[np.float32]]
#: Tensors of several partitions, with awkward sizes, too small to be compressed, and of one element.
SHAPES = {"large": (300, 240), "odd": (7, 193), "vector": (1100,), "small": (7,), "one": ()}


def start() -> Values:
    generator = np.random.default_rng(3)
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def gradient(name: str, value: NDArray[np.float32], rank: int, step: int) -> NDArray[np.float32]:
    """The gradient of rank `rank` in step `step`; row 2 of "odd" is always zero."""
    generator = np.random.default_rng([zlib.crc32(name.encode()), rank, step])
    noise = generator.standard_normal(value.shape).astype(np.float32)
    result = np.asarray(np.float32(0.5) * value + noise, np.float32)
    if name == "odd":
        result[2] = 0
    return result


def parameters() -> dict[str, torch.nn.Parameter]:
    return {name: torch.nn.Parameter(torch.from_numpy(np.array(each))) for name, each in start().items()}


def step(optimizer: torch.optim.Optimizer, named: dict[str, torch.nn.Parameter], rank: int, number: int) -> None:
    for name, each in named.items():
        each.grad = torch.from_numpy(np.array(gradient(name, each.detach().numpy(), rank, number)))
    optimizer.step()


def values_of(named: dict[str, torch.nn.Parameter]) -> Values:
    return {name: each.detach().numpy().copy() for name, each in named.items()}


@contextmanager
def carried(folder: str, timeout: float = 60.0) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rank, and the optimizer's options: none for the engine; with a folder, a process group that meets there.
    `timeout`: of that group, in seconds."""
    if not folder:
        hp.init()
        yield hp.rank(), {}
        return
    with process_group(folder, timeout) as (rank, _):
        yield rank, {"group": dist.group.WORLD}


def world() -> int:
    return int(os.environ["HIPRESS_SIZE"])
