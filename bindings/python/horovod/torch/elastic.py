# SPDX-License-Identifier: Apache-2.0
"""horovod.torch.elastic's names."""

from __future__ import annotations

from hipress.torch.elastic import (
    ElasticSampler,
    LRSchedulerStateHandler,
    ModelStateHandler,
    ObjectState,
    OptimizerStateHandler,
    SamplerStateHandler,
    State,
    StateHandler,
    TorchState,
    get_handler_registry,
    run,
    run_fn,
    set_handler_registry,
)

__all__ = [
    "ElasticSampler",
    "LRSchedulerStateHandler",
    "ModelStateHandler",
    "ObjectState",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "State",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "run",
    "run_fn",
    "set_handler_registry",
]
