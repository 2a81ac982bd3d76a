# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: an optimizer of Keras, tf_keras or tf.compat.v1 that applies combined gradients."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from hipress import runtime
from hipress.adapter.automatic_codec import with_automatic_codec
from hipress.adapter.compression import compressor_of
from hipress.adapter.gradient_options import GradientTravel, gradient_options
from hipress.errors import InvalidArgument
from hipress.options.declaration import declared, filled
from hipress.options.signatures import in_order, takes
from hipress.tensorflow.failures import with_own_errors
from hipress.tensorflow.places import asked_device
from hipress.tensorflow.training.aggregation import Aggregation
from hipress.tensorflow.training.distributed_class import distributed_class
from hipress.tensorflow.training.distributed_optimizer import (
    DistributedKerasOptimizer,
    DistributedTensorflowOptimizer,
    DistributedTfKerasOptimizer,
    DistributedV1Optimizer,
)
from hipress.tensorflow.training.gradients import Combining, GradientLists, LocalVariables
from hipress.tensorflow.training.loss_scaling import inner_optimizers, watch
from hipress.tensorflow.training.options import WORDS, OptimizerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


@in_order(
    "optimizer name use_locking device_dense device_sparse compression sparse_as_dense backward_passes_per_step op "
    "gradient_predivide_factor average_aggregated_gradients num_groups groups process_set scale_local_gradients"
)
@with_own_errors
@takes(OptimizerOptions, **WORDS)
def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: Any, name: str | None = None, **options: Unpack[OptimizerOptions]
) -> DistributedTensorflowOptimizer:
    """Makes `optimizer` apply gradients combined over all ranks; returns it, now also of a distributed class.

    Use it for `model.fit()`, and for loops that call `optimizer.apply()` or `apply_gradients()`. In a tf.function (also
    in `model.fit()`) ranks synchronise each gradient as soon as it is computed, while the rest of backward runs. Every
    rank calls it with the same arguments. If you use DistributedGradientTape, do not wrap the optimizer.

    Mixed precision: Keras' loss scaling may be inside, `DistributedOptimizer(LossScaleOptimizer(optimizer))`, or around
    it, where Keras itself puts it under the policy mixed_float16. The scaler gets combined gradients in both cases, so
    all ranks skip the same steps.

    Arguments:
        optimizer: an optimizer of Keras, of tf_keras (TF_USE_LEGACY_KERAS=1), or of tf.compat.v1.train; or what
            tf.keras.optimizers.get() takes, such as "sgd".
        name: Horovod's; it changes nothing.
        {options}

    Warns (CodecWarning) of a codec that does not fit the optimizer, such as a codec with error feedback for Adam, and
    says what to use instead; plan="auto" does not choose such codecs.

    Raises InvalidArgument, Unsupported, NotInitialized. The first gradients raise Mismatch, with the first difference,
    if the ranks' variables differ, and Timeout if a rank has no gradients.
    """
    given = filled(OptimizerOptions, options)
    runtime.current()
    optimizer = _plain(optimizer)
    given = with_automatic_codec(given, optimizer)
    passes = given["backward_passes_per_step"]
    kind = _distributed_kind(optimizer, passes)
    combining = gradient_options(
        **{name: given[name] for name in declared(GradientTravel)},
        compression=given["compression"],
        op=given["op"],
        gradient_predivide_factor=given["gradient_predivide_factor"],
        process_set=given["process_set"],
        optimizer=optimizer,
    )
    device = asked_device(given["device_dense"])
    watch()
    optimizer.__class__ = distributed_class(kind, optimizer.__class__)
    optimizer._hipress_lists = GradientLists(
        Combining(
            combining,
            given["sparse_as_dense"],
            compressor_of(given["compression"]),
            device,
        ),
        given["plan"],
        counts_updates=kind is DistributedKerasOptimizer,
        restarts=kind is not DistributedV1Optimizer,
    )
    optimizer._hipress_local = LocalVariables(combining.process_set, scale=given["scale_local_gradients"])
    if kind is not DistributedV1Optimizer:
        optimizer._hipress_aggregation = Aggregation(passes, average=given["average_aggregated_gradients"])
    assert isinstance(optimizer, DistributedTensorflowOptimizer)
    return optimizer


def _plain(optimizer: Any) -> Any:
    """The optimizer, made if it is given by name or configuration. Raises InvalidArgument if it synchronises gradients
    already."""
    if isinstance(optimizer, str | dict):
        try:
            return tf.keras.optimizers.get(optimizer)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidArgument(f"Keras makes no optimizer of {optimizer!r}: {error}") from error
    for each in [optimizer, *inner_optimizers(optimizer)]:
        if isinstance(each, DistributedTensorflowOptimizer):
            raise InvalidArgument("this optimizer is distributed already; wrap it once")
        if getattr(each, "synchronizes_gradients", False):
            raise InvalidArgument(
                f"{type(each).__name__} exchanges what its algorithm compresses itself: use it without "
                "DistributedOptimizer, which would send its gradients, too"
            )
    return optimizer


def _distributed_kind(optimizer: Any, passes: int) -> type[DistributedTensorflowOptimizer]:
    """The class that becomes a base of `optimizer`'s class. Raises InvalidArgument."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return DistributedKerasOptimizer
    if _is_of_tf_keras(optimizer):
        return DistributedTfKerasOptimizer
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise InvalidArgument(
            f"{_kind_of(optimizer)} is no optimizer of Keras, tf_keras or tf.compat.v1.train; with others use "
            "DistributedGradientTape"
        )
    if passes > 1:
        raise InvalidArgument("backward_passes_per_step is for Keras optimizers")
    return DistributedV1Optimizer


def _kind_of(optimizer: Any) -> str:
    return f"the class {optimizer.__name__}" if isinstance(optimizer, type) else f"a {type(optimizer).__name__}"


def _is_of_tf_keras(optimizer: Any) -> bool:
    """Whether it is an optimizer of tf_keras (TF_USE_LEGACY_KERAS=1), of either kind."""
    tf_keras = sys.modules.get("tf_keras")  # a program that has not imported it has no such optimizer
    if tf_keras is None:
        return False
    return isinstance(optimizer, (tf_keras.optimizers.Optimizer, tf_keras.optimizers.legacy.Optimizer))


@takes(OptimizerOptions)
def PartialDistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: Any, name: str | None = None, *, local_layers: object = None, **options: Unpack[OptimizerOptions]
) -> DistributedTensorflowOptimizer:
    """DistributedOptimizer that does not combine the gradients of `local_layers`, which are built Keras layers."""
    distributed = DistributedOptimizer(optimizer, name, **options)
    for layer in [] if local_layers is None else tf.nest.flatten(local_layers):
        for variable in layer.trainable_weights:
            distributed.register_local_var(variable)
    return distributed
