# SPDX-License-Identifier: Apache-2.0
"""horovod.torch.compression's names, for users' own compressors."""

from __future__ import annotations

from hipress.torch.compression import Compression, Compressor, FP16Compressor, NoneCompressor

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]
