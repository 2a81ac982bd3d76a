# SPDX-License-Identifier: Apache-2.0
"""The classes that DistributedOptimizer() adds to optimizers of Keras, tf_keras and tf.compat.v1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from hipress import runtime, unfinished
from hipress.adapter.not_copied import NotCopied
from hipress.adapter.planned import PlanArgument, plan_to_set
from hipress.errors import Unsupported
from hipress.tensorflow.traced import as_written
from hipress.tensorflow.training.aggregation import Aggregation
from hipress.tensorflow.training.gradients import GradientLists, LocalVariables
from hipress.tensorflow.training.replicas import check_replicas_every

if TYPE_CHECKING:
    _Optimizer: Any
else:
    _Optimizer = object  # the optimizer's original class is the base


class DistributedTensorflowOptimizer(NotCopied, _Optimizer):  # type: ignore[misc]
    """The class that DistributedOptimizer() adds to the given optimizer: the object gets a class derived from both."""

    _hipress_lists: GradientLists
    _hipress_local: LocalVariables
    _hipress_aggregation: Aggregation
    #: False while a loss scaler around this optimizer hands it gradients that are combined already.
    _hipress_combines = True

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """Replaces the codecs of all gradients from the next step on.

        Every rank calls it between the same steps, outside of tf.function; traced functions need no new trace. It
        replaces both `codec` and `codec_for` of DistributedOptimizer. If the old and the new codec have a state of the
        same name, the new codec goes on with its values; a residual that the new codec does not have is added to the
        next gradient.

        Raises InvalidArgument; Mismatch if the ranks' codecs differ (the old codecs stay); Timeout if a rank does not
        call it.
        """
        self._hipress_lists.set_codec(codec, codec_for)

    def set_plan(self, plan: PlanArgument) -> None:
        """Follows the plan from the next step on; None: gradients travel as without a plan.

        Every rank calls it between the same steps, outside of tf.function, with the same plan: a file or a
        hipress.secopa Plan. No residual is lost, even if another rank or no rank encodes a gradient from now on;
        momentum (dgc's velocity) is lost where another rank encodes.

        Raises InvalidArgument with the first difference between plan and variables; Mismatch if the ranks' plans differ
        (the old plan stays); Timeout if a rank does not call it.
        """
        self._hipress_lists.set_plan(plan_to_set(plan))

    def step_ended(self) -> None:
        """Tells the planner of plan="auto" that a step has ended; plans change only here. Every rank calls it after
        every step, outside of tf.function.

        In `model.fit()`, hipress.tensorflow.keras.callbacks.PlanCallback calls it.
        """
        self._hipress_lists.step_ended()

    def register_local_var(self, variable: Any) -> None:
        """Keeps the gradient of `variable` on this rank: ranks do not combine it."""
        self._hipress_local.add(variable)

    @contextmanager
    def _hipress_receiving_combined(self) -> Iterator[None]:
        """Within this context the optimizer takes gradients as they are."""
        self._hipress_combines = False
        try:
            yield
        finally:
            self._hipress_combines = True


class DistributedKerasOptimizer(DistributedTensorflowOptimizer):
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the plain optimizer of the original class. The program that loads it wraps it again."""
        own: Any = super()
        unpickle, arguments = own.__reduce__()
        return getattr(type(self).__bases__[1], unpickle.__name__), arguments

    @as_written
    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Runs Keras' own step on combined gradients. An error changes no variable."""
        if self._hipress_combines:
            combine_and_apply(self, self, super().apply, grads, trainable_variables)
        else:
            super().apply(grads, trainable_variables)


def combine_and_apply(
    distributed: DistributedTensorflowOptimizer,
    applied: Any,
    apply: Callable[..., None],
    grads: Sequence[Any],
    trainable_variables: Sequence[Any] | None,
) -> None:
    """Combines the gradients as `distributed` does and calls `apply`, a step of the Keras optimizer `applied`, with the
    result. `applied` is `distributed` or a loss scaler around it."""
    variables = applied._trainable_variables if trainable_variables is None else list(trainable_variables)

    def step(gradients: Sequence[Any]) -> None:
        scale = _scale_of(applied)
        combined = distributed._hipress_local.combined(gradients, variables, distributed._hipress_lists, scale)
        with _after(combined), _whole_or_error(), distributed._hipress_receiving_combined():
            apply(combined, trainable_variables)
        distributed._hipress_local.updated(variables, distributed._hipress_lists)
        interval = runtime.current().options.check_replicas
        check_replicas_every(interval, applied.iterations, variables, distributed._hipress_lists.process_set)

    if variables and not applied.built:
        applied.build(variables)
    distributed._hipress_aggregation.add(list(grads), variables, step)


def _scale_of(applied: Any) -> Any:
    """The factor of the gradients that a Keras optimizer is given: of a loss scaler, or its own loss_scale_factor."""
    scale = getattr(applied, "dynamic_scale", None)
    return tf.convert_to_tensor(scale) if scale is not None else (applied.loss_scale_factor or 1.0)


class DistributedTfKerasOptimizer(DistributedTensorflowOptimizer):
    @as_written
    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], *arguments: Any, **keywords: Any) -> Any:
        """Runs tf_keras' own step on combined gradients. An error changes no variable."""
        if not self._hipress_combines:
            return super().apply_gradients(grads_and_vars, *arguments, **keywords)
        return combine_and_apply_pairs(self, self, super().apply_gradients, grads_and_vars, *arguments, **keywords)


def combine_and_apply_pairs(
    distributed: DistributedTensorflowOptimizer,
    applied: Any,
    apply_gradients: Callable[..., Any],
    grads_and_vars: Iterable[tuple[Any, Any]],
    *arguments: Any,
    **keywords: Any,
) -> Any:
    """combine_and_apply() for tf_keras, whose steps take pairs of a gradient and a variable."""
    pairs = list(grads_and_vars)
    variables = [variable for _, variable in pairs]

    def step(gradients: Sequence[Any]) -> None:
        combined = distributed._hipress_local.combined(gradients, variables, distributed._hipress_lists)
        with _after(combined), _whole_or_error(), distributed._hipress_receiving_combined():
            apply_gradients(zip(combined, variables, strict=True), *arguments, **keywords)
        interval = runtime.current().options.check_replicas
        check_replicas_every(interval, applied.iterations, variables, distributed._hipress_lists.process_set)

    distributed._hipress_aggregation.add([gradient for gradient, _ in pairs], variables, step)
    return applied.iterations


@contextmanager
def _whole_or_error() -> Iterator[None]:
    """Reports an error of an eager update to all ranks. The next step reports an error of a graph."""
    try:
        yield
    except BaseException as error:
        if tf.executing_eagerly():
            unfinished.update_raised(runtime.current(), error, "apply()")
        raise


def _after(gradients: Sequence[Any]) -> AbstractContextManager[Any]:
    """Within this context no operator of a graph runs before the gradients are there, even if it uses none of them."""
    present = [gradient for gradient in gradients if gradient is not None]
    if tf.executing_eagerly() or not present:
        return nullcontext()
    first = present[0].values if isinstance(present[0], tf.IndexedSlices) else present[0]
    after: AbstractContextManager[Any] = tf.control_dependencies([first])
    return after


class DistributedV1Optimizer(DistributedTensorflowOptimizer):
    def __reduce__(self) -> tuple[Any, ...]:
        raise Unsupported("a distributed optimizer of tf.compat.v1 cannot be pickled: save its variables with a Saver")

    @as_written
    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Runs the optimizer's own compute_gradients(), and combines the gradients over all ranks."""
        pairs = super().compute_gradients(*args, **kwargs)
        variables = [variable for _, variable in pairs]
        combined = self._hipress_local.combined([gradient for gradient, _ in pairs], variables, self._hipress_lists)
        return list(zip(combined, variables, strict=True))
