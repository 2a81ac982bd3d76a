# SPDX-License-Identifier: Apache-2.0
"""Checks that all ranks have the same bytes of the parameters (HIPRESS_CHECK_REPLICAS)."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from hipress.adapter import replicas
from hipress.torch.reals import resolved


def check_replicas(named_parameters: Iterable[tuple[str, torch.Tensor]], step: int) -> None:
    """See hipress.adapter.replicas."""
    replicas.check_replicas(
        (
            (name, resolved(parameter.detach()).contiguous().flatten().view(torch.uint8).cpu().numpy())
            for name, parameter in named_parameters
        ),
        step,
    )
