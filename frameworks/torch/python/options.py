# SPDX-License-Identifier: Apache-2.0
"""The options that hipress.torch adds to those of all frameworks.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

from collections.abc import Sequence
from typing import Annotated

import torch

from hipress.adapter.collective_options import AllreduceOptions, CompressedAllreduceOptions
from hipress.adapter.gradient_options import GradientOptions
from hipress.options.declaration import Option
from hipress.options.scaling import ScalingOptions
from hipress.options.warmup import Warmup

#: The words that fill the placeholders of the option texts of all frameworks.
WORDS = {
    "parameter": "parameter",
    "codec_for_example": '{"embedding.weight": "fp16"}',
    "plan_names": "",
    "plan_needs": "",
}


class TorchOptions(GradientOptions, ScalingOptions, total=False):
    """The options of DistributedOptimizer."""

    backward_passes_per_step: Annotated[
        int,
        Option("Number of backward passes that add up gradients before a synchronisation.", default=1, at_least=1),
    ]
    groups: Annotated[
        int | Sequence[Sequence[torch.Tensor]] | None,
        Option("Horovod's; it changes nothing, as num_groups.", default=None, at_least=0),
    ]
    warmup: Annotated[
        int | Warmup | None,
        Option(
            "Number of first steps in which gradients travel without a codec. hipress.torch.Warmup in place of a "
            "number sets another codec, or ratios of `codec` in turn. Not with `plan`; `set_codec()` ends it.",
            default=None,
        ),
    ]
    sparse_as_dense: Annotated[
        bool,
        Option(
            "Sparse gradients become dense ones; SparseAdam, which takes no dense ones, finds them sparse again. "
            "Otherwise every rank gets the entries of all ranks, without a codec, and must have a gradient for each "
            "such parameter in the first step.",
            default=False,
        ),
    ]


class TorchAllreduceOptions(AllreduceOptions, ScalingOptions, total=False):
    """The options of an all-reduce. `scaler` is that of the loss whose gradients the values are."""


class TorchCompressedAllreduceOptions(CompressedAllreduceOptions, ScalingOptions, total=False):
    """The options of an all-reduce that waits."""
