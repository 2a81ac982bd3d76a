# SPDX-License-Identifier: Apache-2.0
"""Horovod's Compression for MXNet."""

from __future__ import annotations

import mxnet as mx
import numpy as np

from hipress.adapter.compression import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Sends floating-point arrays as float16; arrays of other types stay as they are."""

    codec = "fp16"

    @staticmethod
    def compress(tensor: mx.nd.NDArray) -> tuple[mx.nd.NDArray, type]:
        floating = np.issubdtype(tensor.dtype, np.floating)
        return (tensor.astype(np.float16, copy=False) if floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: mx.nd.NDArray, ctx: type) -> mx.nd.NDArray:
        return tensor.astype(ctx, copy=False)


class Compression:
    """Values for `compression=`. All other codecs are given by name: `codec="onebit"`."""

    none = NoneCompressor
    fp16 = FP16Compressor


__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]
