# SPDX-License-Identifier: Apache-2.0
"""Elastic training with torch, under Horovod's names (horovod.torch.elastic); see hipress.elastic."""

from __future__ import annotations

from hipress.elastic import HostsUpdatedInterrupt, HostUpdateResult, Loss, ObjectState, State, losses, run, run_fn
from hipress.torch.elastic.handlers import (
    LRSchedulerStateHandler,
    ModelStateHandler,
    OptimizerStateHandler,
    SamplerStateHandler,
    StateHandler,
    get_handler_registry,
    set_handler_registry,
)
from hipress.torch.elastic.sampler import ElasticSampler
from hipress.torch.elastic.state import TorchState

__all__ = [
    "ElasticSampler",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "LRSchedulerStateHandler",
    "Loss",
    "ModelStateHandler",
    "ObjectState",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "State",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "losses",
    "run",
    "run_fn",
    "set_handler_registry",
]
