# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: any of MXNet's optimizers, for training loops that call it without Gluon's Trainer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mxnet as mx

from hipress import runtime, unfinished
from hipress.adapter.compression import compressor_of
from hipress.adapter.gradient_options import GradientOptions, GradientTravel, gradient_options
from hipress.adapter.not_copied import NotCopied
from hipress.adapter.planned import is_automatic
from hipress.errors import InvalidArgument
from hipress.mxnet.keyed import KeyedSynchronizer
from hipress.mxnet.options import WORDS
from hipress.mxnet.replicas import check_replicas_after
from hipress.options.declaration import declared, filled
from hipress.options.signatures import in_order, takes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    _Optimizer: Any
else:
    _Optimizer = object  # the optimizer's original class is the base


class DistributedMxnetOptimizer(NotCopied, _Optimizer):  # type: ignore[misc]
    """The class that DistributedOptimizer() adds to the given optimizer: the object gets a class derived from both."""

    synchronizes_gradients = True
    _hipress: KeyedSynchronizer
    _hipress_updating: bool
    #: By the names of an update: how often it was taken.
    _hipress_updates: Counter[tuple[str, ...]]

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Runs the optimizer's own update of one or several parameters on synchronised gradients."""
        self._update(super().update, index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Does as update(), also for float16 weights."""
        self._update(super().update_multi_precision, index, weight, grad, state)

    def _update(self, own: Any, index: Any, weight: Any, grad: Any, state: Any) -> None:
        if self._hipress_updating:  # one of the optimizer's methods calls the other
            own(index, weight, grad, state)
            return
        several = isinstance(index, Sequence)
        names = [self._name(each) for each in (index if several else [index])]
        gradients = dict(zip(names, grad if several else [grad], strict=True))
        self._hipress.synchronize(gradients, self.rescale_grad)
        self._hipress_updating = True
        try:
            own(index, weight, grad, state)
        except BaseException as error:
            unfinished.update_raised(runtime.current(), error, "update()")
            raise
        finally:
            self._hipress_updating = False
        self._hipress_updates[tuple(names)] += 1
        weights = zip(names, weight if several else [weight], strict=True)
        check_replicas_after(self._hipress_updates[tuple(names)], weights, self._hipress.process_set)

    def _name(self, index: int) -> str:
        own: Any = self
        if index in own.param_dict:
            return str(own.param_dict[index].name)
        return str(own.idx2name.get(index, f"parameter.{index}"))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickles the plain optimizer of the original class."""
        own_class: Any = type(self).__bases__[1]
        plain = own_class.__new__(own_class)
        plain.__dict__ = {name: value for name, value in self.__dict__.items() if not name.startswith("_hipress")}
        return _restored, (own_class, plain.__getstate__())


def _restored(own_class: Any, state: Any) -> Any:
    optimizer = own_class.__new__(own_class)
    optimizer.__setstate__(state)
    return optimizer


@in_order("optimizer gradient_predivide_factor num_groups process_set")
@takes(GradientOptions, **WORDS)
def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: mx.optimizer.Optimizer, **options: Unpack[GradientOptions]
) -> DistributedMxnetOptimizer:
    """Makes `optimizer` update from gradients combined over all ranks; returns it, now also of a distributed class.

    Use it for the Module API and for your own loops. With Gluon use DistributedTrainer: it sees all gradients of a step
    together, so a step that fails changes no parameter. This optimizer synchronises parameters one by one if MXNet
    updates them one by one.

    `codec_for` and the plan use the optimizer's names (`param_idx2name`); MXNet must update all members of a plan's
    group together. Every rank calls update() for the same parameters in the same order.

    Arguments:
        optimizer: any optimizer of MXNet.
        {options}
    """
    runtime.current()
    given = filled(GradientOptions, options)
    if isinstance(optimizer, DistributedMxnetOptimizer):
        raise InvalidArgument("this optimizer is distributed already; wrap it once")
    if getattr(optimizer, "synchronizes_gradients", False):
        raise InvalidArgument(
            f"{type(optimizer).__name__} takes the place of an optimizer and of DistributedOptimizer: use it alone"
        )
    if not isinstance(optimizer, mx.optimizer.Optimizer):
        raise InvalidArgument(
            f"DistributedOptimizer takes an optimizer of MXNet, such as mx.optimizer.SGD(), not {optimizer!r}"
        )
    if is_automatic(given["plan"]):
        raise InvalidArgument("automatic plans need DistributedTrainer, which sees all gradients of a step together")
    combining = gradient_options(
        **{name: given[name] for name in declared(GradientTravel)},
        compression=given["compression"],
        gradient_predivide_factor=given["gradient_predivide_factor"],
        op=given["op"],
        process_set=given["process_set"],
        optimizer=optimizer,
    )
    own = optimizer.__class__
    optimizer.__class__ = type(f"Distributed{own.__name__}", (DistributedMxnetOptimizer, own), {})
    optimizer._hipress = KeyedSynchronizer(combining, compressor_of(given["compression"]), in_order=True)
    optimizer._hipress_updating = False
    optimizer._hipress_updates = Counter()
    assert isinstance(optimizer, DistributedMxnetOptimizer)
    return optimizer
