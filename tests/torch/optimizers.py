# SPDX-License-Identifier: Apache-2.0
"""The optimizer with which most tests of this folder begin."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import hipress.torch as hp


def start(model: nn.Module, lr: float = 0.1, **options: Any) -> Any:
    hp.init()
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return hp.DistributedOptimizer(optimizer, model.named_parameters(), **options)
