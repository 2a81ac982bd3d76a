# SPDX-License-Identifier: Apache-2.0
"""horovod.mxnet.compression's names, for users' own compressors."""

from __future__ import annotations

from hipress.mxnet.compression import Compression, Compressor, FP16Compressor, NoneCompressor

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]
