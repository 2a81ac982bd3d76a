# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: any Keras optimizer, or tf.compat.v1 one, that applies gradients combined over all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import tensorflow as tf

from hipress import process_sets, runtime
from hipress.compression import Compression
from hipress.errors import InvalidArgument
from hipress.gradient_options import gradient_options
from hipress.planned import PlanArgument, plan_to_set
from hipress.process_sets import ProcessSet, global_process_set
from hipress.reduce_ops import Average, ReduceOp
from hipress.tensorflow import horovod_arguments
from hipress.tensorflow.aggregation import Aggregation
from hipress.tensorflow.gradients import GradientLists, GradientOptions, LocalVariables
from hipress.tensorflow.replicas import check_replicas_every
from hipress.tensorflow.traced import as_written


class _DistributedMixin:
    """What a distributed optimizer has beside its own class."""

    _hipress_lists: GradientLists
    _hipress_local: LocalVariables

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """From the next step on gradients travel with these codecs, as if given to DistributedOptimizer.

        Every rank calls it between the same steps, outside of tf.function; what is traced needs no new trace. What
        codecs remember is kept where the old and the new one call it the same; a residual that the new codec does not
        know joins the next gradient. It replaces both `codec` and `codec_for`.

        Raises InvalidArgument; Mismatch if the ranks' codecs differ (the old ones stay); Timeout if a rank does not
        call it.
        """
        self._hipress_lists.set_codec(codec, codec_for)

    def set_plan(self, plan: PlanArgument) -> None:
        """From the next step on gradients travel as the plan says; None: as without one.

        Every rank calls it between the same steps, outside of tf.function, with the same plan: a file or a
        hipress.secopa Plan. What codecs have dropped is not lost, whichever rank encodes a gradient from now on, or
        none; momentum (dgc's velocity) is forgotten where another rank does.

        Raises InvalidArgument with the first difference between plan and variables; Mismatch if the ranks' plans differ
        (the old way stays); Timeout if a rank does not call it.
        """
        self._hipress_lists.set_plan(plan_to_set(plan))

    def step_ended(self) -> None:
        """With plan="auto" every rank calls it after every step, outside of tf.function: plans change there only.

        In `model.fit()` hipress.tensorflow.keras.callbacks.PlanCallback does.
        """
        self._hipress_lists.step_ended()

    def register_local_var(self, variable: Any) -> None:
        """The gradient of `variable` stays this rank's own."""
        self._hipress_local.add(variable)


class _DistributedKerasMixin(_DistributedMixin):
    _hipress_aggregation: Aggregation

    @as_written
    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Keras' own step, on combined gradients. An error changes no variable."""
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)  # type: ignore[attr-defined]

        def step(gradients: Sequence[Any]) -> None:
            combined = self._hipress_local.combined(gradients, variables, self._hipress_lists)
            with _after(combined):
                super(_DistributedKerasMixin, self).apply(combined, trainable_variables)  # type: ignore[misc]
            check_replicas_every(runtime.current().options.check_replicas, self.iterations, variables)  # type: ignore[attr-defined]

        if variables and not self.built:  # type: ignore[attr-defined]
            self.build(variables)  # type: ignore[attr-defined]
        self._hipress_aggregation.add(list(grads), variables, step)


def _after(gradients: Sequence[Any]) -> AbstractContextManager[Any]:
    """In a graph: within it nothing runs before the gradients are there, not even what takes none of them."""
    present = [gradient for gradient in gradients if gradient is not None]
    if tf.executing_eagerly() or not present:
        return nullcontext()
    first = present[0].values if isinstance(present[0], tf.IndexedSlices) else present[0]
    after: AbstractContextManager[Any] = tf.control_dependencies([first])
    return after


class _DistributedV1Mixin(_DistributedMixin):
    @as_written
    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """As the optimizer's own; the gradients are those of all ranks together."""
        pairs = super().compute_gradients(*args, **kwargs)  # type: ignore[misc]
        variables = [variable for _, variable in pairs]
        combined = self._hipress_local.combined([gradient for gradient, _ in pairs], variables, self._hipress_lists)
        return list(zip(combined, variables, strict=True))


def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: Any,
    name: str | None = None,
    *,
    compression: str = Compression.none,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    min_compress_bytes: int = 4096,
    codec_for: Mapping[str, str] | None = None,
    plan: PlanArgument = None,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    sparse_as_dense: bool = False,
    scale_local_gradients: bool = True,
    process_set: ProcessSet = global_process_set,
    **horovod: Any,
) -> Any:
    """Makes `optimizer` apply gradients combined over all ranks; returns it, now also of a distributed class.

    For `model.fit()`, and for loops that call `optimizer.apply()` or `apply_gradients()`. In a tf.function, so in
    `model.fit()`, each gradient is on its way as soon as it is computed, while the rest of backward runs. Every rank
    calls it with the same arguments. With a tape of DistributedGradientTape the optimizer stays as it is.

    Mixed precision: wrap before Keras' LossScaleOptimizer does, `LossScaleOptimizer` inside: all ranks then see the
    same gradients, and skip the same steps.

    Arguments:
        optimizer: a Keras optimizer, or one of tf.compat.v1.train.
        name: Horovod's, for scopes of its own; it changes nothing, as do further arguments of Horovod's.
        compression: Compression.fp16 is codec="fp16".
        codec: how gradients are compressed: "none", "fp16", "onebit", "tbq", "terngrad", "dgc" or "graddrop", or a
            loaded one; with options: "dgc(ratio=0.01)". `set_codec()` changes it later.
        topology: how they travel: "ps", "ring", "allgather" or "hierarchical".
        partitions: pieces per tensor; 0: by size.
        min_compress_bytes: smaller gradients travel as they are.
        codec_for: codecs of single variables by their path, e.g. {"embedding/embeddings": "fp16"}.
        plan: says of each variable how its gradient travels, in place of the five before: a file that `hipress plan`
            has written (of one with lines `name,size,y|n,K`, `codec` and `topology` say the rest), or a hipress.secopa
            Plan. `set_plan()` changes it later. "auto": gradients travel as they are in the first steps; then links and
            `codec` are measured, and planned is whether to use it, variable by variable, and all the rest. If steps
            later take something else, the plan is made anew. The logger "hipress.plan" says so on rank 0. It needs
            `step_ended()` or PlanCallback. hipress.secopa.automatic.AutomaticOptions instead of "auto" allow several
            codecs, and say how often to look.
        backward_passes_per_step: so many gradients are summed before they are combined and applied (Keras optimizers).
        average_aggregated_gradients: their average is, instead of their sum.
        op: Average or Sum.
        gradient_predivide_factor: f splits averaging: gradients are divided by f before they are summed, and the sum is
            multiplied by f / size() afterwards.
        sparse_as_dense: sparse gradients (IndexedSlices) travel as dense ones instead of being gathered.
        scale_local_gradients: gradients of local variables (`register_local_var()`) are divided by size().

    Raises InvalidArgument, Unsupported; when the first gradients come Mismatch, with the first difference, if the
    ranks' variables differ, and Timeout if a rank has none; NotInitialized.
    """
    horovod_arguments.check("DistributedOptimizer", horovod)
    if backward_passes_per_step < 1:
        raise InvalidArgument(f"backward_passes_per_step={backward_passes_per_step} must be at least 1")
    if isinstance(optimizer, _DistributedMixin):
        raise InvalidArgument("this optimizer is distributed already; wrap it once")
    process_sets.check(process_set)
    runtime.current()
    lists = GradientLists(
        GradientOptions(
            gradient_options(
                compression=compression,
                codec=codec,
                topology=topology,
                partitions=partitions,
                min_compress_bytes=min_compress_bytes,
                codec_for=codec_for,
                plan=plan,
                op=op,
                gradient_predivide_factor=gradient_predivide_factor,
            ),
            sparse_as_dense,
        ),
        plan,
    )
    if isinstance(optimizer, keras.optimizers.Optimizer):
        mixin: type = _DistributedKerasMixin
    elif isinstance(optimizer, tf.compat.v1.train.Optimizer):
        mixin = _DistributedV1Mixin
        if backward_passes_per_step > 1:
            raise InvalidArgument("backward_passes_per_step is for Keras optimizers")
    else:
        raise InvalidArgument(
            f"{type(optimizer).__name__} is neither a Keras optimizer nor one of tf.compat.v1.train; with others "
            "combine the gradients yourself, by DistributedGradientTape"
        )
    own = optimizer.__class__
    # Named as it was: a model that is saved with it loads without HiPress.
    optimizer.__class__ = type(own.__name__, (mixin, own), {"__module__": own.__module__})
    optimizer._hipress_lists = lists
    optimizer._hipress_local = LocalVariables(scale=scale_local_gradients)
    if mixin is _DistributedKerasMixin:
        optimizer._hipress_aggregation = Aggregation(backward_passes_per_step, average=average_aggregated_gradients)
    return optimizer


def PartialDistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: Any, name: str | None = None, *, local_layers: Any = None, **options: Any
) -> Any:
    """DistributedOptimizer, but the gradients of some Keras layers, which have been built, stay this rank's own."""
    optimizer = DistributedOptimizer(optimizer, name, **options)
    for layer in [] if local_layers is None else tf.nest.flatten(local_layers):
        for variable in layer.trainable_weights:
            optimizer.register_local_var(variable)
    return optimizer
