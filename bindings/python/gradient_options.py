# SPDX-License-Identifier: Apache-2.0
"""The arguments that the distributed optimizers of all frameworks have in common."""

from __future__ import annotations

from collections.abc import Mapping

from hipress.compression import Compression, codec_of
from hipress.errors import InvalidArgument
from hipress.planned import PlanArgument, plan_of
from hipress.reduce_ops import Average, ReduceOp, Sum
from hipress.synchronizer import SynchronizationOptions


def gradient_options(
    *,
    compression: str = Compression.none,
    gradient_predivide_factor: float = 1.0,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    min_compress_bytes: int = 4096,
    codec_for: Mapping[str, str] | None = None,
    plan: PlanArgument = None,
    op: ReduceOp = Average,
) -> SynchronizationOptions:
    """Checked, for a TensorList of gradients. Raises InvalidArgument, also if the plan cannot be read."""
    if op not in (Average, Sum):
        raise InvalidArgument(f"op={op!r}: choose Average or Sum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgument("gradient_predivide_factor goes with op=Average only")
    if not gradient_predivide_factor > 0:
        raise InvalidArgument(f"gradient_predivide_factor={gradient_predivide_factor} must be positive")
    return SynchronizationOptions(
        codec=codec_of(compression, codec),
        topology=topology,
        partitions=partitions,
        min_compress_bytes=min_compress_bytes,
        op=op,
        prescale_factor=1.0 / gradient_predivide_factor,
        postscale_factor=gradient_predivide_factor,
        codec_for=dict(codec_for or {}),
        plan=plan_of(plan, codec_of(compression, codec), topology),
    )
