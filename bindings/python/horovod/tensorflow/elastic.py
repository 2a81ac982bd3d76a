# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.elastic's names."""

from __future__ import annotations

from hipress.tensorflow.elastic import ObjectState, TensorFlowKerasState, TensorFlowState, run, run_fn

__all__ = ["ObjectState", "TensorFlowKerasState", "TensorFlowState", "run", "run_fn"]
