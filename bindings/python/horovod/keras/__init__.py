# SPDX-License-Identifier: Apache-2.0
"""horovod.keras' names: `import hipress.horovod.keras as hvd`. Keras 3 runs on TensorFlow here."""

from __future__ import annotations

from hipress import tensorflow
from hipress.adapter.reduce_ops import Adasum
from hipress.horovod import absent
from hipress.horovod.tensorflow import keras
from hipress.horovod.tensorflow.keras import *  # noqa: F403
from hipress.options.signatures import in_order

DistributedOptimizer = in_order(
    "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor op num_groups "
    "groups"
)(tensorflow.DistributedOptimizer)

PartialDistributedOptimizer = in_order(
    "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor op groups "
    "process_set local_layers scale_local_gradients"
)(tensorflow.PartialDistributedOptimizer)

__getattr__ = absent.refusing("keras")

__all__ = [*keras.__all__, "Adasum"]
