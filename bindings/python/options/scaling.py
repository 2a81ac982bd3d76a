# SPDX-License-Identifier: Apache-2.0
"""The option for scaled losses, which every way in of PyTorch takes.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

from typing import Annotated, Any, TypedDict

from hipress.options.declaration import Option


class ScalingOptions(TypedDict, total=False):
    """How the losses are scaled whose gradients are averaged."""

    scaler: Annotated[
        Any,
        Option(
            "The torch.amp.GradScaler that scales the loss; or an object with get_scale(), or a function that returns "
            "the scale. Codecs keep values for later steps in the unit of the gradient, and follow a changed scale.",
            default=None,
        ),
    ]
