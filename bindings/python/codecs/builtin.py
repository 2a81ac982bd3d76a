# SPDX-License-Identifier: Apache-2.0
"""The built-in codecs. compll/generate_codec_classes.py writes this file from their declarations.

It is longer than 500 lines because it has a class for each codec.
"""

# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING

from hipress.codecs.typed import Codec

if TYPE_CHECKING:
    from typing_extensions import Self


class BF16(Codec):
    """bfloat16: the upper half of each float, rounded to nearest even."""

    def __new__(cls) -> Self:
        return super().__new__(cls, "bf16")


class DGC(Codec):
    """Deep gradient compression (Lin et al., 2018): the largest values are sent; the others are kept with their
    momentum.

    Attributes:
        momentum: Of the velocity; merged gradients have momentum already: float in [0, 1)
        ratio: The share of the values that is sent: double in (0, 1]
        sample_rate: The share of the values from which the threshold is estimated: double in (0, 1]
        error_feedback: Whether the residual is added to the next gradient: true or false.
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    momentum: float
    ratio: float
    sample_rate: float
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, momentum: float = 0.9, ratio: float = 0.001, sample_rate: float = 0.001,
                error_feedback: bool = True, residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "dgc", momentum=momentum, ratio=ratio, sample_rate=sample_rate,
                               error_feedback=error_feedback, residual_factor=residual_factor,
                               gradient_factor=gradient_factor)


class DynamiQ(Codec):
    """2 to 8 bits per value: blocks of greater values get more, in a fixed budget (as in DynamiQ, arXiv 2602.08923).

    Attributes:
        bits: Per value on average, scales included: double in [3, 8]
        block: How many values share a scale and a width: int in {32, 64, 128, 256}
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    bits: float
    block: int
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, bits: float = 5.1, block: int = 64, error_feedback: bool = False, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "dynamiq", bits=bits, block=block, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class EFSignSGD(Codec):
    """EF-SignSGD (Karimireddy et al., 2019): the sign of each value times the mean magnitude of its block, and error
    feedback.

    Attributes:
        block: How many values share a magnitude: int in [64, 16777216]
        error_feedback: Whether the residual is added to the next gradient: true or false.
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    block: int
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, block: int = 32768, error_feedback: bool = True, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "efsignsgd", block=block, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class FP16(Codec):
    """IEEE half precision, rounded to nearest even; 65520 and above become infinity."""

    def __new__(cls) -> Self:
        return super().__new__(cls, "fp16")


class FP4E2M1(Codec):
    """Block-scaled 4-bit floats, e2m1 (Rouhani et al., 2023): 2 bits of exponent, 1 of mantissa; 6 is a block's
    greatest magnitude.

    Attributes:
        block: How many values share a scale: int in [16, 16777216]
        stochastic: Round at random without bias, in place of to the nearest: bool
        power_of_two: Scales are powers of two, rounded up, as in MX formats: bool
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    block: int
    stochastic: bool
    power_of_two: bool
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, block: int = 256, stochastic: bool = False, power_of_two: bool = False,
                error_feedback: bool = True, residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "fp4_e2m1", block=block, stochastic=stochastic, power_of_two=power_of_two,
                               error_feedback=error_feedback, residual_factor=residual_factor,
                               gradient_factor=gradient_factor)


class FP8E4M3(Codec):
    """Block-scaled 8-bit floats, e4m3 (Micikevicius et al., 2022): 4 bits of exponent, 3 of mantissa; 448 is a
    block's greatest magnitude.

    Attributes:
        block: How many values share a scale: int in [16, 16777216]
        stochastic: Round at random without bias, in place of to the nearest: bool
        power_of_two: Scales are powers of two, rounded up, as in MX formats: bool
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    block: int
    stochastic: bool
    power_of_two: bool
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, block: int = 256, stochastic: bool = False, power_of_two: bool = False,
                error_feedback: bool = False, residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "fp8_e4m3", block=block, stochastic=stochastic, power_of_two=power_of_two,
                               error_feedback=error_feedback, residual_factor=residual_factor,
                               gradient_factor=gradient_factor)


class FP8E5M2(Codec):
    """Block-scaled 8-bit floats, e5m2 (Micikevicius et al., 2022): 5 bits of exponent, 2 of mantissa; 57344 is a
    block's greatest magnitude.

    Attributes:
        block: How many values share a scale: int in [16, 16777216]
        stochastic: Round at random without bias, in place of to the nearest: bool
        power_of_two: Scales are powers of two, rounded up, as in MX formats: bool
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    block: int
    stochastic: bool
    power_of_two: bool
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, block: int = 256, stochastic: bool = False, power_of_two: bool = False,
                error_feedback: bool = False, residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "fp8_e5m2", block=block, stochastic=stochastic, power_of_two=power_of_two,
                               error_feedback=error_feedback, residual_factor=residual_factor,
                               gradient_factor=gradient_factor)


class GradDrop(Codec):
    """Gradient dropping (Aji & Heafield, 2017): only the largest values are sent, the others stay in the residual.

    Attributes:
        ratio: The share of the values that is sent: double in (0, 1]
        sample_rate: The share of the values from which the threshold is estimated: double in (0, 1]
        error_feedback: Whether the residual is added to the next gradient: true or false.
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    ratio: float
    sample_rate: float
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, ratio: float = 0.001, sample_rate: float = 0.001, error_feedback: bool = True,
                residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "graddrop", ratio=ratio, sample_rate=sample_rate, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class Int4(Codec):
    """Block-scaled integers of 4 bits: each value is -7 to 7 times its block's scale, the greatest magnitude over 7.

    Attributes:
        block: How many values share a scale: int in [16, 16777216]
        stochastic: Round at random without bias, in place of to the nearest: bool
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    block: int
    stochastic: bool
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, block: int = 256, stochastic: bool = False, error_feedback: bool = True,
                residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "int4", block=block, stochastic=stochastic, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class Int8(Codec):
    """Block-scaled integers of 8 bits: each value is -127 to 127 times its block's scale, the greatest magnitude
    over 127.

    Attributes:
        block: How many values share a scale: int in [16, 16777216]
        stochastic: Round at random without bias, in place of to the nearest: bool
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    block: int
    stochastic: bool
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, block: int = 256, stochastic: bool = False, error_feedback: bool = False,
                residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "int8", block=block, stochastic=stochastic, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class Int8Shared(Codec):
    """Integers of 8 bits with scales that all ranks share, so that ranks add the integers and decode their sum once.

    Attributes:
        levels: The greatest integer of a rank: the sum over all ranks is 127 at most: int in [1, 127]
        block: How many values share a scale: int in [16, 16777216]
        stochastic: Round at random without bias, in place of to the nearest: bool
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    levels: int
    block: int
    stochastic: bool
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, levels: int = 15, block: int = 256, stochastic: bool = False, error_feedback: bool = True,
                residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "int8_shared", levels=levels, block=block, stochastic=stochastic,
                               error_feedback=error_feedback, residual_factor=residual_factor,
                               gradient_factor=gradient_factor)


class Natural(Codec):
    """Natural compression (Horváth et al., 2019): the sign and a power of two, the lower or the higher one at random
    without bias.

    Attributes:
        stochastic: False: the nearer power of two: bool
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    stochastic: bool
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, stochastic: bool = True, error_feedback: bool = False, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "natural", stochastic=stochastic, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class Uncompressed(Codec):
    """The values themselves, uncompressed."""

    def __new__(cls) -> Self:
        return super().__new__(cls, "none")


class OneBit(Codec):
    """1-bit SGD (Seide et al., 2014): one sign bit per value, for each block the mean of each sign's values, and
    error feedback.

    Attributes:
        block: How many values share their two means: int in [64, 16777216]
        error_feedback: Whether the residual is added to the next gradient: true or false.
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    block: int
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, block: int = 32768, error_feedback: bool = True, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "onebit", block=block, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class PowerSGD(Codec):
    """A matrix as the product of two low-rank factors, summed one after the other.

    Attributes:
        rank: Vectors of each factor, 1 to 32; fewer if the matrix has fewer rows or columns.
        min_ratio: Above 0. A matrix of n rows and m columns travels uncompressed if rank · (n + m) · min_ratio
            exceeds n · m.
        error_feedback: Whether the residual (matrix minus product) is added to the next gradient.
        warm_start: Whether a step begins with the last step's right factor.
    """

    rank: int
    min_ratio: float
    error_feedback: bool
    warm_start: bool

    def __new__(cls, *, rank: int = 1, min_ratio: float = 2.0, error_feedback: bool = True,
                warm_start: bool = True) -> Self:
        return super().__new__(cls, "powersgd", rank=rank, min_ratio=min_ratio, error_feedback=error_feedback,
                               warm_start=warm_start)


class QSGD(Codec):
    """QSGD (Alistarh et al., 2017): each value is -levels to levels times its block's length over `levels`, rounded
    at random without bias.

    Attributes:
        levels: On each side of zero: int in [1, 127]
        block: How many values share their Euclidean length: int in [16, 16777216]
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    levels: int
    block: int
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, levels: int = 127, block: int = 512, error_feedback: bool = False, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "qsgd", levels=levels, block=block, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class RandomK(Codec):
    """Random-k (Stich et al., 2018): values at places that are drawn at random, on all ranks the same; the others
    stay in the residual.

    Attributes:
        ratio: The share of the values that is sent: double in (0, 1]
        error_feedback: Whether the residual is added to the next gradient: true or false.
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    ratio: float
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, ratio: float = 0.01, error_feedback: bool = True, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "randomk", ratio=ratio, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class TBQ(Codec):
    """Threshold binary quantisation (Strom, 2015): +t, 0 or -t in two bits; what is left stays in the residual.

    Attributes:
        threshold: float in (0, inf)
        error_feedback: Whether the residual is added to the next gradient: true or false.
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    threshold: float
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, threshold: float = 0.05, error_feedback: bool = True, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "tbq", threshold=threshold, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class TernGrad(Codec):
    """TernGrad as HiPress means it, by blocks: 2^bitwidth levels from a block's least to its greatest value, rounded
    at random without bias.

    Attributes:
        bitwidth: uint8 in {1, 2, 4, 8}
        stochastic: bool
        block: How many values share their levels: int in [64, 16777216]
    """

    bitwidth: int
    stochastic: bool
    block: int

    def __new__(cls, *, bitwidth: int = 2, stochastic: bool = True, block: int = 1024) -> Self:
        return super().__new__(cls, "terngrad", bitwidth=bitwidth, stochastic=stochastic, block=block)


class THC(Codec):
    """THC (Li et al., 2024), uniform: signs and a Hadamard transform make values nearly normal, so ranks agree on
    norms of blocks. A short last block stays as it is, and its greatest value counts. The paper draws new signs
    in each round, decode knows no round.

    Attributes:
        levels: The greatest integer of a rank: the sum over all ranks is 127 at most: int in [1, 127]
        reach: How many standard deviations this integer stands for; greater values become it: float in [1, 8]
        stochastic: Round at random without bias, in place of to the nearest: bool
        error_feedback: Keep what is cut off or rounded away and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    levels: int
    reach: float
    stochastic: bool
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, levels: int = 7, reach: float = 2.5, stochastic: bool = False, error_feedback: bool = True,
                residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "thc", levels=levels, reach=reach, stochastic=stochastic,
                               error_feedback=error_feedback, residual_factor=residual_factor,
                               gradient_factor=gradient_factor)


class Threshold(Codec):
    """Sparsification by a fixed threshold (Dutta et al., 2020): values from the threshold on are sent, the others
    stay in the residual.

    Attributes:
        threshold: float in (0, inf)
        ratio: At most this share of the values is sent, the largest ones: double in (0, 1]
        error_feedback: Whether the residual is added to the next gradient: true or false.
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    threshold: float
    ratio: float
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, threshold: float = 0.01, ratio: float = 0.25, error_feedback: bool = True,
                residual_factor: float = 1.0, gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "threshold", threshold=threshold, ratio=ratio, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


class TopK(Codec):
    """Top-k (Aji & Heafield, 2017; Stich et al., 2018): exactly the largest values are sent, the others stay in the
    residual.

    Attributes:
        ratio: The share of the values that is sent: double in (0, 1]
        error_feedback: Whether the residual is added to the next gradient: true or false.
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    ratio: float
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, ratio: float = 0.01, error_feedback: bool = True, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "topk", ratio=ratio, error_feedback=error_feedback, residual_factor=residual_factor,
                               gradient_factor=gradient_factor)


class U8Bit(Codec):
    """8 bits of a dynamic tree for each value of a block (Dettmers, 2016; Dettmers et al., 2022). Behind the sign,
    zeros up to the first 1 count decades, and the bits after it divide the decade evenly.

    Attributes:
        block: How many values share a scale, which is the greatest magnitude: int in [16, 16777216]
        error_feedback: Keep what rounding dropped and add it to the next gradient: bool
        residual_factor: The factor of the residual that is added to the next gradient: float in [0, 1].
        gradient_factor: The factor of the gradient that the residual is added to: float in (0, 1].
    """

    block: int
    error_feedback: bool
    residual_factor: float
    gradient_factor: float

    def __new__(cls, *, block: int = 4096, error_feedback: bool = False, residual_factor: float = 1.0,
                gradient_factor: float = 1.0) -> Self:
        return super().__new__(cls, "u8bit", block=block, error_feedback=error_feedback,
                               residual_factor=residual_factor, gradient_factor=gradient_factor)


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
    "DynamiQ",
    "EFSignSGD",
    "GradDrop",
    "Int4",
    "Int8",
    "Int8Shared",
    "Natural",
    "OneBit",
    "PowerSGD",
    "RandomK",
    "TernGrad",
    "Threshold",
    "TopK",
    "U8Bit",
    "Uncompressed",
]
