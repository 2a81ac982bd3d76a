# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks, with Horovod's name and meaning."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.errors import InvalidArgument
from hipress.tensorflow.batch_moments import moments_over_all_ranks

#: Whether tf.keras is tf_keras (TF_USE_LEGACY_KERAS=1).
_IS_LEGACY = tf.keras.layers.BatchNormalization.__module__.startswith("tf_keras")


@tf.keras.utils.register_keras_serializable(package="hipress")
class SyncBatchNormalization(tf.keras.layers.BatchNormalization):  # type: ignore[misc]
    """Batch normalisation whose mean and variance, in training, are of the batches of all ranks.

    It computes what Keras' layer computes in one process for the concatenated batch: output, moving statistics and
    gradient of the input. Gradients of gamma and beta are of this rank's batch; DistributedOptimizer averages them.
    Ranks may have batches of different sizes, also without rows, and masks. All ranks must run their layers in one
    order. In inference, and where the set has one rank, it is Keras' layer and sends nothing.

    Each forward pass has one allgather, each backward pass one allreduce, uncompressed. A second derivative raises
    Unsupported, and XLA cannot compile the layer.

    Arguments:
        fused: False; the argument is Horovod's.
        process_set: the ranks with whose batches the layer normalises. Models are saved without it.
        options: arguments of tf.keras.layers.BatchNormalization.

    Calls raise Keras' errors, and Mismatch (ranks with different numbers of channels), NotInitialized, PeerLost,
    Timeout.
    """

    def __init__(
        self, fused: bool | None = False, *, process_set: ProcessSet = global_process_set, **options: Any
    ) -> None:
        if fused is not False:
            raise InvalidArgument(
                f"SyncBatchNormalization(fused={fused}): its kernel is not fused; leave the option out"
            )
        super().__init__(**({"fused": False} if _IS_LEGACY else {}), **options)
        self._process_set = process_set
        #: Keras compiles a model with XLA only if all of its layers allow that.
        self.supports_jit = False

    def _moments(self, inputs: Any, *arguments: Any, **keywords: Any) -> Any:
        if self._process_set.size() == 1:
            return super()._moments(inputs, *arguments, **keywords)
        if _IS_LEGACY:
            return self._of_all_ranks(inputs, *arguments, **keywords)
        return self._of_all_ranks(inputs, self._reduction_axes, False, *arguments, **keywords)

    def _of_all_ranks(self, inputs: Any, axes: Any, keep_dims: bool, mask: Any = None) -> Any:
        present = None if mask is None else tf.cast(tf.expand_dims(mask, -1), tf.bool)
        results = moments_over_all_ranks(inputs, axes, present, self._process_set)
        return results if keep_dims else tuple(tf.squeeze(each, axes) for each in results)
