# SPDX-License-Identifier: Apache-2.0
"""The loss scale of a Trainer that MXNet's amp scales."""

from __future__ import annotations

import mxnet as mx


def loss_scale_of(trainer: mx.gluon.Trainer) -> float:
    """The factor of the gradients that amp.scale_loss(), or amp.unscale() after it, has left; 1 without amp."""
    if getattr(trainer, "_amp_loss_scaler", None) is None:
        return 1.0
    return float(trainer._amp_original_scale / trainer._scale)
