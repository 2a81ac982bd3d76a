# SPDX-License-Identifier: Apache-2.0
"""Horovod's Compression for TensorFlow."""

from __future__ import annotations

import tensorflow as tf

from hipress.adapter.compression import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Sends floating-point tensors as float16; tensors of other types stay as they are."""

    codec = "fp16"

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, tf.DType]:
        return (tf.cast(tensor, tf.float16) if tensor.dtype.is_floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: tf.DType) -> tf.Tensor:
        return tf.cast(tensor, ctx)


class Compression:
    """Values for `compression=`. All other codecs are given by name: `codec="onebit"`."""

    none = NoneCompressor
    fp16 = FP16Compressor


__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]
