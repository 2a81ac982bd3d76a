# SPDX-License-Identifier: Apache-2.0
"""DistributedGradientTape: tf.GradientTape whose gradients are combined over all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from hipress import process_sets
from hipress.compression import Compression, codec_of
from hipress.errors import InvalidArgument
from hipress.gradient_options import gradient_options
from hipress.planned import PlanArgument
from hipress.process_sets import ProcessSet, global_process_set
from hipress.reduce_ops import Average, ReduceOp
from hipress.tensorflow import horovod_arguments
from hipress.tensorflow.gradients import GradientLists, GradientOptions, LocalVariables, shared_lists, shared_plan
from hipress.tensorflow.traced import as_written


class _DistributedTape(tf.GradientTape):  # type: ignore[misc]
    """What a tape of DistributedGradientTape() is."""

    _hipress_lists: GradientLists
    _hipress_local: LocalVariables

    def register_local_source(self, source: Any) -> None:
        """The gradient of `source` stays this rank's own."""
        self._hipress_local.add(source)

    @as_written
    def gradient(self, target: Any, sources: Any, *arguments: Any, **keywords: Any) -> Any:
        """As tf.GradientTape's; the gradients are those of all ranks together."""
        gradients = super().gradient(target, sources, *arguments, **keywords)
        flat_sources = tf.nest.flatten(sources)
        # A sparse gradient is one gradient, not three tensors.
        flat = tf.nest.flatten(gradients)
        combined = self._hipress_local.combined(flat, flat_sources, self._hipress_lists)
        return tf.nest.pack_sequence_as(sources, combined)


def DistributedGradientTape(  # noqa: N802  (Horovod's name)
    gradtape: tf.GradientTape,
    *,
    compression: str = Compression.none,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    min_compress_bytes: int = 4096,
    codec_for: Mapping[str, str] | None = None,
    plan: PlanArgument = None,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    sparse_as_dense: bool = False,
    scale_local_gradients: bool = True,
    process_set: ProcessSet = global_process_set,
    **horovod: Any,
) -> Any:
    """Makes `gradtape.gradient()` return gradients combined over all ranks; returns the tape.

        with tf.GradientTape() as tape:
            loss = ...
        tape = hipress.tensorflow.DistributedGradientTape(tape, codec="onebit")
        gradients = tape.gradient(loss, model.trainable_variables)

    In a tf.function each gradient is on its way as soon as it is computed, while the rest of backward runs. Every rank
    calls it with the same arguments and sources; the first time for a list of sources all ranks compare that list.

    Arguments:
        compression, codec, topology, partitions, min_compress_bytes, codec_for, plan, op, gradient_predivide_factor,
            sparse_as_dense: as for DistributedOptimizer.
        scale_local_gradients: gradients of local sources (`tape.register_local_source()`) are divided by size(), as if
            they were averaged with the zeros of the other ranks.

    Raises InvalidArgument, Unsupported; Mismatch with the first difference if the ranks' sources differ; Timeout if a
    rank does not call it; NotInitialized.
    """
    horovod_arguments.check("DistributedGradientTape", horovod)
    if isinstance(gradtape, _DistributedTape):
        raise InvalidArgument("this tape is distributed already; wrap it once")
    process_sets.check(process_set)
    options = gradient_options(
        compression=compression,
        codec=codec,
        topology=topology,
        partitions=partitions,
        min_compress_bytes=min_compress_bytes,
        codec_for=codec_for,
        plan=shared_plan(plan, codec_of(compression, codec), topology),
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
    )
    own = gradtape.__class__
    gradtape.__class__ = type(f"Distributed{own.__name__}", (_DistributedTape, own), {})
    gradtape._hipress_lists = shared_lists(GradientOptions(options, sparse_as_dense))
    gradtape._hipress_local = LocalVariables(scale=scale_local_gradients)
    return gradtape


def PartialDistributedGradientTape(  # noqa: N802  (Horovod's name)
    gradtape: tf.GradientTape, *, local_layers: Any | Sequence[Any] | None = None, **options: Any
) -> Any:
    """DistributedGradientTape, but the gradients of some Keras layers stay this rank's own."""
    tape = DistributedGradientTape(gradtape, **options)
    layers = [] if local_layers is None else tf.nest.flatten(local_layers)
    for layer in layers:
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape
