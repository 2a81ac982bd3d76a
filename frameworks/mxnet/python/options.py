# SPDX-License-Identifier: Apache-2.0
"""The options that hipress.mxnet adds to those of all frameworks.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

from typing import Annotated

from hipress.adapter.collective_options import CompressedAllreduceOptions
from hipress.adapter.gradient_options import GradientOptions
from hipress.options.declaration import Option

#: The words that fill the placeholders of the option texts of all frameworks.
WORDS = {
    "parameter": "parameter",
    "codec_for_example": '{"dense0_weight": "fp16"}',
    "plan_names": " (with the prefix, if there is one)",
    "plan_needs": "",
}


class TrainerOptions(GradientOptions, total=False):
    """The options of DistributedTrainer."""

    prefix: Annotated[
        str | None,
        Option("Prefix of the parameters' names in errors and traces; it distinguishes two trainers.", default=None),
    ]
    sparse_as_dense: Annotated[
        bool,
        Option("Row-sparse gradients are synchronised as dense ones; False: HiPress refuses them.", default=False),
    ]


class MxnetAllreduceOptions(CompressedAllreduceOptions, total=False):
    """The options of an all-reduce."""

    priority: Annotated[int, Option("Operations with a higher priority go first.", default=0)]
