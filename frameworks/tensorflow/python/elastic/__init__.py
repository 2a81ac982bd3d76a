# SPDX-License-Identifier: Apache-2.0
"""Elastic training with TensorFlow, under Horovod's names (horovod.tensorflow.elastic); see hipress.elastic."""

from __future__ import annotations

from hipress.elastic import HostsUpdatedInterrupt, HostUpdateResult, Loss, ObjectState, State, losses, run_fn
from hipress.tensorflow.elastic.state import TensorFlowKerasState, TensorFlowState, run

__all__ = [
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "Loss",
    "ObjectState",
    "State",
    "TensorFlowKerasState",
    "TensorFlowState",
    "losses",
    "run",
    "run_fn",
]
