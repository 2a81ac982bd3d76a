# SPDX-License-Identifier: Apache-2.0
"""The options that hipress.tensorflow adds to those of all frameworks.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

from typing import Annotated

from hipress.adapter.gradient_options import GradientOptions
from hipress.options.declaration import Option

#: The words that fill the placeholders of the option texts of all frameworks.
WORDS = {
    "parameter": "variable",
    "codec_for_example": '{"embedding/embeddings": "fp16"}, by their paths',
    "plan_names": "",
    "plan_needs": " It needs `step_ended()` or PlanCallback.",
}


class TapeOptions(GradientOptions, total=False):
    """The options of DistributedGradientTape."""

    device_dense: Annotated[
        str,
        Option(
            "Ranks combine dense gradients on this device, such as CPU:0; empty: where each variable is.", default=""
        ),
    ]
    device_sparse: Annotated[str, Option("Horovod's; it changes nothing: slices are gathered on the CPU.", default="")]
    sparse_as_dense: Annotated[
        bool,
        Option(
            "Sparse gradients (IndexedSlices) travel as dense ones; False: every rank gathers the slices of all ranks.",
            default=False,
        ),
    ]
    groups: Annotated[object, Option("Horovod's; it changes nothing.", default=None)]
    scale_local_gradients: Annotated[
        bool,
        Option(
            "Gradients of local variables, which ranks do not combine, are divided by size(), as if they were averaged "
            "with zeros of the other ranks.",
            default=True,
        ),
    ]


class OptimizerOptions(TapeOptions, total=False):
    """The options of DistributedOptimizer."""

    use_locking: Annotated[bool, Option("Horovod's; it changes nothing.", default=False)]
    backward_passes_per_step: Annotated[
        int,
        Option(
            "Number of gradients that each rank sums before ranks combine and apply them (Keras optimizers).",
            default=1,
            at_least=1,
        ),
    ]
    average_aggregated_gradients: Annotated[
        bool, Option("Ranks combine the average of these gradients instead of their sum.", default=False)
    ]
