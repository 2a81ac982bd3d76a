# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: any of MXNet's optimizers, for training loops that call it without Gluon's Trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mxnet as mx

from hipress import process_sets, runtime
from hipress.compression import Compression
from hipress.errors import InvalidArgument
from hipress.gradient_options import gradient_options
from hipress.mxnet.keyed import KeyedSynchronizer
from hipress.planned import PlanArgument, is_automatic
from hipress.process_sets import ProcessSet, global_process_set
from hipress.reduce_ops import Average, ReduceOp


class _DistributedMixin:
    """What a distributed optimizer has beside its own class."""

    synchronizes_gradients = True
    _hipress: KeyedSynchronizer
    _hipress_updating: bool

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """The optimizer's own update, on synchronised gradients: of one parameter, or of several at once."""
        self._update(super().update, index, weight, grad, state)  # type: ignore[misc]

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As update(), also for weights in float16."""
        self._update(super().update_multi_precision, index, weight, grad, state)  # type: ignore[misc]

    def _update(self, own: Any, index: Any, weight: Any, grad: Any, state: Any) -> None:
        if self._hipress_updating:  # one of the optimizer's methods calls the other
            own(index, weight, grad, state)
            return
        several = isinstance(index, Sequence)
        names = [self._name(each) for each in (index if several else [index])]
        self._hipress.synchronize(dict(zip(names, grad if several else [grad], strict=True)))
        self._hipress_updating = True
        try:
            own(index, weight, grad, state)
        finally:
            self._hipress_updating = False

    def _name(self, index: int) -> str:
        own: Any = self
        if index in own.param_dict:
            return str(own.param_dict[index].name)
        return str(own.idx2name.get(index, f"parameter.{index}"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Saved, it is the plain optimizer, of the class that it had."""
        own_class: Any = type(self).__mro__[2]
        plain = own_class.__new__(own_class)
        plain.__dict__ = {name: value for name, value in self.__dict__.items() if not name.startswith("_hipress")}
        return _restored, (own_class, plain.__getstate__())


def _restored(own_class: Any, state: Any) -> Any:
    optimizer = own_class.__new__(own_class)
    optimizer.__setstate__(state)
    return optimizer


def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: mx.optimizer.Optimizer,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    process_set: ProcessSet = global_process_set,
    *,
    compression: str = Compression.none,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    min_compress_bytes: int = 4096,
    codec_for: Mapping[str, str] | None = None,
    plan: PlanArgument = None,
    op: ReduceOp = Average,
) -> Any:
    """Makes `optimizer` update from gradients combined over all ranks; returns it, now also of a distributed class.

    For the Module API and loops of your own. Gluon users take DistributedTrainer: it sees all gradients of a step
    together, so that a step that fails changes no parameter. Here, parameters that MXNet updates one by one are
    synchronised one by one.

    The arguments are those of DistributedTrainer; `codec_for` and the plan take the names that the optimizer knows
    (`param_idx2name`), and a plan's groups are of parameters that are updated together. Every rank calls update() for
    the same parameters in the same order.
    """
    runtime.current()
    process_sets.check(process_set)
    if isinstance(optimizer, _DistributedMixin):
        raise InvalidArgument("this optimizer is distributed already; wrap it once")
    if is_automatic(plan):
        raise InvalidArgument("automatic plans are DistributedTrainer's: it sees all gradients of a step together")
    options = gradient_options(
        compression=compression,
        gradient_predivide_factor=gradient_predivide_factor,
        codec=codec,
        topology=topology,
        partitions=partitions,
        min_compress_bytes=min_compress_bytes,
        codec_for=codec_for,
        plan=plan,
        op=op,
    )
    own = optimizer.__class__
    optimizer.__class__ = type(f"Distributed{own.__name__}", (_DistributedMixin, own), {})
    optimizer._hipress = KeyedSynchronizer(options)
    optimizer._hipress_updating = False
    return optimizer
