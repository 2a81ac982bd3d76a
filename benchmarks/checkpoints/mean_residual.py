# SPDX-License-Identifier: Apache-2.0
"""The mean residual over all ranks, from each rank's own states: the part of the gradients that no average has yet.

codec_states() computes the mean in float32 in another way. So a mistake of it does not hide itself here.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

import hipress.torch as hp
from hipress.torch.kept_states import Keeper


def mean_residual(optimizer: Keeper) -> NDArray[np.float64]:
    """The residuals of all tensors behind one another, in the unit of gradients. All ranks call it between steps."""
    states = {key: each.numpy() for key, each in hp.codec_states(optimizer, exact=True).items()}
    names = sorted(key.removesuffix(":shape") for key in states if key.endswith(":shape"))
    mine = torch.from_numpy(np.concatenate([_of_gradients(states, name) for name in names]))
    dist.all_reduce(mine)
    mean: NDArray[np.float64] = mine.numpy() / dist.get_world_size()
    return mean


def _of_gradients(states: dict[str, NDArray[np.float64]], name: str) -> NDArray[np.float64]:
    stretches = states[f"{name}:stretches"]
    factors = np.concatenate([np.full(int(count), factor) for count, _, factor in stretches])
    residual = np.zeros(len(factors))
    kept = states.get(f"{name}/residual")
    if kept is not None:
        np.divide(kept, factors, out=residual, where=factors != 0)
    unsent = states.get(f"{name}:unsent")
    return residual if unsent is None else residual + unsent
