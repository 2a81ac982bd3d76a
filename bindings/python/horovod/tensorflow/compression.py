# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.compression's names, for users' own compressors."""

from __future__ import annotations

from hipress.tensorflow.compression import Compression, Compressor, FP16Compressor, NoneCompressor

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]
