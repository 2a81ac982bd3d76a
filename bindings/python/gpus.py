# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this process, for work outside an engine: process groups and codec operators."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from hipress._library import load_core

if TYPE_CHECKING:
    from hipress._core import Device


@functools.cache
def gpu(ordinal: int) -> Device:
    """The GPU with this CUDA number; the same object in every call.

    Raises Unsupported, which names what is missing: the driver, the GPU or NVRTC.
    """
    # Imported here, because programs with CPU tensors do not need it.
    from hipress.compll.build.kernels import compile_kernels

    device: Device = load_core().cuda_device(ordinal, compiler=compile_kernels)
    return device
