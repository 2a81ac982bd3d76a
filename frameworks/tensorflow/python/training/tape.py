# SPDX-License-Identifier: Apache-2.0
"""DistributedGradientTape: tf.GradientTape whose gradients are combined over all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import tensorflow as tf

from hipress.adapter.compression import codec_of, compressor_of
from hipress.adapter.gradient_options import GradientTravel, gradient_options
from hipress.errors import InvalidArgument, Unsupported
from hipress.options.declaration import declared, filled
from hipress.options.signatures import in_order, takes
from hipress.tensorflow.failures import with_own_errors
from hipress.tensorflow.places import asked_device
from hipress.tensorflow.traced import as_written
from hipress.tensorflow.training.gradients import Combining, GradientLists, LocalVariables, shared_lists, shared_plan
from hipress.tensorflow.training.loss_scaling import watch
from hipress.tensorflow.training.options import WORDS, TapeOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The result of tf.GradientTape.gradient(), which has the structure of the sources.
Gradients: TypeAlias = "tf.Tensor | tf.IndexedSlices | list[Gradients] | dict[str, Gradients] | None"


class DistributedTape(tf.GradientTape):  # type: ignore[misc]
    """The class that DistributedGradientTape() adds to the given tape: the object gets a class derived from both."""

    _hipress_lists: GradientLists
    _hipress_local: LocalVariables

    def register_local_source(self, source: Any) -> None:
        """Keeps the gradient of `source` on this rank: ranks do not combine it."""
        self._hipress_local.add(source)

    @as_written
    def gradient(self, target: Any, sources: Any, *arguments: Any, **keywords: Any) -> Gradients:
        """Calls tf.GradientTape.gradient() and combines the gradients over all ranks."""
        gradients = super().gradient(target, sources, *arguments, **keywords)
        flat_sources = tf.nest.flatten(sources)
        # tf.nest does not expand composites here: a sparse gradient is one gradient, not three tensors.
        flat = tf.nest.flatten(gradients)
        combined = self._hipress_local.combined(flat, flat_sources, self._hipress_lists)
        for each in combined:
            if each is not None:
                each.hipress_combined = True  # for optimizers that would send it again
        return tf.nest.pack_sequence_as(sources, combined)

    @as_written
    def jacobian(self, *_: Any, **__: Any) -> Any:
        """Raises Unsupported: TensorFlow would combine the gradient of each element of the target on its own."""
        raise _no_jacobian("jacobian")

    @as_written
    def batch_jacobian(self, *_: Any, **__: Any) -> Any:
        """Raises Unsupported, see jacobian()."""
        raise _no_jacobian("batch_jacobian")


def _no_jacobian(name: str) -> BaseException:
    return Unsupported(
        f"{name}() of a distributed tape: call it on a plain tf.GradientTape, and combine the result with "
        "hp.allreduce(jacobian, name=...)"
    )


@in_order(
    "gradtape device_dense device_sparse compression sparse_as_dense op gradient_predivide_factor num_groups groups "
    "process_set scale_local_gradients"
)
@with_own_errors
@takes(TapeOptions, **WORDS)
def DistributedGradientTape(  # noqa: N802  (Horovod's name)
    gradtape: tf.GradientTape, **options: Unpack[TapeOptions]
) -> DistributedTape:
    """Makes `gradtape.gradient()` return gradients combined over all ranks; returns the tape.

        with tf.GradientTape() as tape:
            loss = ...
        tape = hipress.tensorflow.DistributedGradientTape(tape, codec="onebit")
        gradients = tape.gradient(loss, model.trainable_variables)

    In a tf.function ranks synchronise each gradient as soon as it is computed, while the rest of backward runs. Every
    rank calls it with the same arguments and sources. At the first use of a list of sources all ranks compare the list.
    `tape.register_local_source()` makes a source local. `plan` cannot be "auto", because a tape may live for one step
    only.

    Arguments:
        gradtape: the tape, before its gradient() is called.
        {options}

    Raises InvalidArgument, Unsupported; Mismatch with the first difference if the ranks' sources differ; Timeout if a
    rank does not call it; NotInitialized.
    """
    if isinstance(gradtape, DistributedTape):
        raise InvalidArgument("this tape is distributed already; wrap it once")
    given = filled(TapeOptions, options)
    compression = given["compression"]
    travel = {name: given[name] for name in declared(GradientTravel)}
    travel["plan"] = shared_plan(given["plan"], codec_of(compression, given["codec"]), given["topology"])
    combining = gradient_options(
        **travel,
        compression=compression,
        op=given["op"],
        gradient_predivide_factor=given["gradient_predivide_factor"],
        process_set=given["process_set"],
    )
    device = asked_device(given["device_dense"])
    watch()
    own = gradtape.__class__
    gradtape.__class__ = type(f"Distributed{own.__name__}", (DistributedTape, own), {})
    gradtape._hipress_lists = shared_lists(
        Combining(combining, given["sparse_as_dense"], compressor_of(compression), device)
    )
    gradtape._hipress_local = LocalVariables(combining.process_set, scale=given["scale_local_gradients"])
    assert isinstance(gradtape, DistributedTape)
    return gradtape


@in_order(
    "gradtape device_dense device_sparse compression sparse_as_dense op gradient_predivide_factor num_groups groups "
    "process_set local_layers scale_local_gradients"
)
@takes(TapeOptions)
def PartialDistributedGradientTape(  # noqa: N802  (Horovod's name)
    gradtape: tf.GradientTape, *, local_layers: object = None, **options: Unpack[TapeOptions]
) -> DistributedTape:
    """DistributedGradientTape that does not combine the gradients of `local_layers`, which are Keras layers."""
    tape = DistributedGradientTape(gradtape, **options)
    for layer in [] if local_layers is None else tf.nest.flatten(local_layers):
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape
