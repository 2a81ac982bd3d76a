# SPDX-License-Identifier: Apache-2.0
"""The codecs: as objects with typed options, and from files.

    import hipress.torch as hp

    hp.DistributedOptimizer(optimizer, named_parameters=..., codec=hp.codecs.Int8(block=128))

A codec is its text: hp.codecs.Int8(block=128) == "int8(block=128)".
"""

from __future__ import annotations

from hipress.codecs.builtin import (
    BF16,
    DGC,
    FP4E2M1,
    FP8E4M3,
    FP8E5M2,
    FP16,
    QSGD,
    TBQ,
    THC,
    DynamiQ,
    EFSignSGD,
    GradDrop,
    Int4,
    Int8,
    Int8Shared,
    Natural,
    OneBit,
    PowerSGD,
    RandomK,
    TernGrad,
    Threshold,
    TopK,
    U8Bit,
    Uncompressed,
)
from hipress.codecs.loading import load_codec
from hipress.codecs.typed import Codec, LoadedCodec

__all__ = [
    "BF16",
    "DGC",
    "FP4E2M1",
    "FP8E4M3",
    "FP8E5M2",
    "FP16",
    "QSGD",
    "TBQ",
    "THC",
    "Codec",
    "DynamiQ",
    "EFSignSGD",
    "GradDrop",
    "Int4",
    "Int8",
    "Int8Shared",
    "LoadedCodec",
    "Natural",
    "OneBit",
    "PowerSGD",
    "RandomK",
    "TernGrad",
    "Threshold",
    "TopK",
    "U8Bit",
    "Uncompressed",
    "load_codec",
]
