# SPDX-License-Identifier: Apache-2.0
"""HiPress for `model.fit()` of Keras 3 on TensorFlow, and of tf_keras with TF_USE_LEGACY_KERAS=1.

import hipress.tensorflow.keras as hp

hp.init()
model.compile(hp.DistributedOptimizer(keras.optimizers.SGD(0.01 * hp.size()), codec="onebit"), loss)
model.fit(images, labels, callbacks=[hp.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

from __future__ import annotations

from hipress.horovod import absent
from hipress.tensorflow import (
    Average,
    Compression,
    DistributedOptimizer,
    PartialDistributedOptimizer,
    Sum,
    broadcast_global_variables,
    codec_states,
    counters,
    cross_rank,
    cross_size,
    init,
    is_initialized,
    load_codec_states,
    local_rank,
    local_size,
    memory_stats,
    rank,
    shutdown,
    size,
)
from hipress.tensorflow.keras import callbacks, elastic
from hipress.tensorflow.keras.saving import load_model
from hipress.tensorflow.keras.values import allgather, allreduce, broadcast, reducescatter

__getattr__ = absent.refusing("tensorflow.keras")

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "codec_states",
    "counters",
    "cross_rank",
    "cross_size",
    "elastic",
    "init",
    "is_initialized",
    "load_codec_states",
    "load_model",
    "local_rank",
    "local_size",
    "memory_stats",
    "rank",
    "reducescatter",
    "shutdown",
    "size",
]
