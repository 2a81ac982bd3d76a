# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo's 2 bits per value (arXiv 2508.15706): four equal bins around the mean, in all six standard deviations."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from hipress.torch.tiles.packing import Bytes

BINS = 4
_WIDTH_IN_SIGMAS = 6
_LARGEST = torch.finfo(torch.bfloat16).max


def quantized(values: NDArray[np.float32], counted: NDArray[np.bool_]) -> tuple[torch.Tensor, Bytes]:
    """The mean of each bin's values as bfloat16, and each value's bin. `values` are finite; the means use only the
    `counted` values. The residual keeps the rounding error.

    The published code sends five numbers: the mean of all values, and the bins' means relative to it. Here the sender
    adds that mean to each bin's mean and sends four numbers.
    """
    exact = values.astype(np.float64)
    members = int(counted.sum())
    shift = exact[counted].mean() if members else 0.0
    centred = exact - shift
    sigma = math.sqrt(float(np.square(centred[counted]).sum()) / max(members - 1, 1))
    scale = _WIDTH_IN_SIGMAS * sigma / BINS
    bins = np.clip(np.rint(centred / (scale if scale > 0 else 1.0) + BINS / 2), 0, BINS - 1).astype(np.uint8)
    sums = np.bincount(bins[counted], weights=centred[counted], minlength=BINS)
    counts = np.bincount(bins[counted], minlength=BINS)
    means = torch.from_numpy((shift + sums / np.maximum(counts, 1)).astype(np.float32))
    return means.bfloat16().clamp(-_LARGEST, _LARGEST), bins
