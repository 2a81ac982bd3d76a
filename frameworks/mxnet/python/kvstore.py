# SPDX-License-Identifier: Apache-2.0
"""mx.kv.create("hipress"): HiPress behind MXNet's own interface for distributed training."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import mxnet as mx
from mxnet.kvstore import KVStoreBase

from hipress import runtime, unfinished
from hipress.adapter.gradient_options import for_optimizer, gradient_options
from hipress.adapter.reduce_ops import Sum
from hipress.errors import InvalidArgument, Unsupported
from hipress.mxnet.collectives import broadcast_
from hipress.mxnet.keyed import KeyedSynchronizer
from hipress.mxnet.loss_scale import loss_scale_of
from hipress.mxnet.optimizer import DistributedMxnetOptimizer
from hipress.mxnet.replicas import check_replicas_after, trained
from hipress.options.declaration import declared
from hipress.options.travel import TravelOptions


def _listed(value: Any) -> list[mx.nd.NDArray]:
    return list(value) if isinstance(value, list | tuple) else [value]


@KVStoreBase.register
class Hipress(KVStoreBase):  # type: ignore[misc]
    """The store for `Trainer(..., kvstore="hipress", compression_params={"codec": "onebit"})` and for Module.

    Like MXNet's other stores it adds values up and does not average: `trainer.step(batch_size * kv.num_workers)`, the
    same on all ranks. Module divides by the number of workers itself. Each key is synchronised as soon as its value is
    ready. Each worker updates the parameters itself, not the store.
    """

    def __init__(self) -> None:
        self._process = runtime.current()
        self._options = gradient_options(op=Sum)
        self._synchronizer = KeyedSynchronizer(self._options, in_order=False)
        self._used = False
        self._updates = 0
        self._optimizer: mx.optimizer.Optimizer | None = None

    def set_gradient_compression(self, compression_params: Mapping[str, Any]) -> None:
        """Sets the codec and the other options of the values. Call it before the first pushpull().

        Takes codec, topology, partitions, min_compress_bytes and codec_for (by key), as DistributedTrainer does. It
        also takes MXNet's own {"type": "2bit", "threshold": 0.5}, which means the codec tbq.
        """
        if self._used:
            raise InvalidArgument("set_gradient_compression() comes before the first pushpull()")
        params = dict(compression_params)
        kind = params.pop("type", None)
        if kind == "2bit":
            params.setdefault("codec", f"tbq(threshold={params.pop('threshold', 0.5)})")
        elif kind is not None:
            params.setdefault("codec", kind)
        known = declared(TravelOptions)
        if unknown := sorted(set(params) - set(known)):
            raise InvalidArgument(
                f"compression parameter '{unknown[0]}' does not exist; there are {', '.join(sorted(known))}, and "
                "MXNet's type and threshold"
            )
        self._options = gradient_options(op=Sum, **params)
        self._synchronizer = KeyedSynchronizer(self._options, in_order=False)

    def advise(self, optimizer: mx.optimizer.Optimizer) -> None:
        """Takes the optimizer of a Trainer or Module, whose factors ranks compare from now on, and warns (CodecWarning)
        of codecs that do not fit it. Raises InvalidArgument for an optimizer that combines gradients itself."""
        self._optimizer = optimizer
        self.check_combines_alone()
        self._options = for_optimizer(self._options, optimizer, None)

    def updated(self, parameters: Iterable[tuple[str, mx.nd.NDArray]]) -> None:
        """Takes the parameters of a Trainer or Module after an update, and compares them with the other ranks' if
        HIPRESS_CHECK_REPLICAS says so."""
        self._updates += 1
        check_replicas_after(self._updates, parameters)

    def check_combines_alone(self) -> None:
        """Raises InvalidArgument if the optimizer combines gradients, too."""
        if isinstance(self._optimizer, DistributedMxnetOptimizer):
            raise InvalidArgument(
                "the kvstore 'hipress' and hp.DistributedOptimizer each combine the gradients of all ranks, so they "
                "would travel twice; leave out one: give the plain optimizer, or kvstore=None"
            )

    def set_loss_scale(self, scale: float) -> None:
        """Says that the next values are gradients times `scale`: residuals get their unit. A Trainer with amp calls
        it."""
        self._synchronizer.set_loss_scale(scale)

    def broadcast(self, key: str | int, value: Any, out: Any, priority: int = 0) -> None:
        """`out` := rank 0's `value`, on all ranks."""
        first, *others = _listed(out)
        value = _listed(value)[0]
        if first is not value:
            value.copyto(first)
        broadcast_(first, 0, f"kvstore.{key}", priority)
        for other in others:
            first.copyto(other)

    def init(self, key: str | int, value: Any) -> None:
        """Calls broadcast() in place, for Module."""
        self.broadcast(key, value, value)

    def pushpull(self, key: str | int, value: Any, out: Any = None, priority: int = 0) -> None:
        """`out` (default: `value`) := the sum of all ranks' `value`. The arrays of a list are added up first."""
        self.check_combines_alone()  # a script may go on after advise() has raised
        self._used = True
        values = _listed(value)
        first, *others = values if out is None else _listed(out)
        if len(values) > 1:
            total = values[0].copy()
            for each in values[1:]:
                total += each.as_in_context(total.context)
            total.copyto(first)
        elif first is not values[0]:
            values[0].copyto(first)
        self._synchronizer.synchronize({str(key): first}, getattr(self._optimizer, "rescale_grad", None))
        for other in others:
            first.copyto(other)

    def set_optimizer(self, optimizer: mx.optimizer.Optimizer) -> None:
        """Raises Unsupported: each worker updates its own parameters."""
        raise Unsupported("the kvstore 'hipress' does not update parameters: give update_on_kvstore=False")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store updates parameters itself (KVStoreBase.OPTIMIZER): it does not."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return False
        raise InvalidArgument(f"MXNet has no capability '{capability}'")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Raises Unsupported: the worker has the optimizer's state."""
        raise Unsupported("the kvstore 'hipress' has no optimizer: use trainer.save_states() or the updater's states")

    def load_optimizer_states(self, fname: str) -> None:
        """Raises Unsupported: the worker has the optimizer's state."""
        raise Unsupported("the kvstore 'hipress' has no optimizer: use trainer.load_states() or the updater's states")

    @property
    def type(self) -> str:
        """ "dist_sync_hipress": by "dist" and "_sync" Module knows to divide gradients by the number of workers."""
        return "dist_sync_hipress"

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return self._process.place.rank

    @property
    def num_workers(self) -> int:
        """The world size."""
        return self._process.place.size


def _taking_hipress_by_name(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def create_kvstore(kvstore: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(kvstore, str) and kvstore.lower() == "hipress":
            kvstore = mx.kv.create("hipress")
        return create(kvstore, *args, **kwargs)

    return create_kvstore


def _check_step(trainer: mx.gluon.Trainer, ignore_stale_grad: bool) -> None:
    """Raises InvalidArgument if gradients would travel twice, Unsupported for what one rank would decide alone."""
    if isinstance(trainer._kvstore, Hipress):
        trainer._kvstore.check_combines_alone()
    if runtime.is_initialized() and runtime.size() > 1:
        if ignore_stale_grad and isinstance(trainer._kvstore, Hipress):
            raise Unsupported(
                "ignore_stale_grad=True with the kvstore 'hipress': the store does not know which gradients are new. "
                "Use hp.DistributedTrainer, whose ranks tell each other"
            )
        if isinstance(trainer._optimizer, DistributedMxnetOptimizer) and hasattr(trainer, "_amp_loss_scaler"):
            raise Unsupported(
                "amp.init_trainer() of a Trainer with a DistributedOptimizer: MXNet would look for an overflow before "
                "the ranks combine gradients, and one rank would leave out a step alone. Use "
                "hp.DistributedTrainer(params, optimizer) in place of both"
            )


def _whole_or_error(step: Callable[..., None]) -> Callable[..., None]:
    """Reports an error of Trainer.step() or update() to all ranks: it may have updated some parameters."""

    @functools.wraps(step)
    def step_of_all(
        self: mx.gluon.Trainer, batch_size: int, ignore_stale_grad: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        if not self._kv_initialized:
            self._init_kvstore()
        _check_step(self, ignore_stale_grad)
        args = (batch_size, ignore_stale_grad, *args)
        try:
            step(self, *args, **kwargs)
        except BaseException as error:
            if isinstance(self._kvstore, Hipress):
                unfinished.update_raised(runtime.current(), error, "step()")
            raise
        if isinstance(self._kvstore, Hipress):
            self._kvstore.updated(trained(self._params))

    return step_of_all


mx.gluon.Trainer.step = _whole_or_error(mx.gluon.Trainer.step)


def _scaled(allreduce_grads: Callable[[mx.gluon.Trainer], None]) -> Callable[[mx.gluon.Trainer], None]:
    """Tells the store the Trainer's loss scale."""

    @functools.wraps(allreduce_grads)
    def scale_and_allreduce_grads(self: mx.gluon.Trainer) -> None:
        if isinstance(self._kvstore, Hipress):
            self._kvstore.set_loss_scale(loss_scale_of(self))
        allreduce_grads(self)

    return scale_and_allreduce_grads


mx.gluon.Trainer._allreduce_grads = _scaled(mx.gluon.Trainer._allreduce_grads)
mx.gluon.Trainer.update = _whole_or_error(mx.gluon.Trainer.update)

# With one device and a name without "dist", MXNet silently makes no kvstore.
for _module in (mx.model, mx.gluon.trainer, mx.module.module):
    _module._create_kvstore = _taking_hipress_by_name(_module._create_kvstore)


def _advised(init: Callable[..., Any]) -> Callable[..., Any]:
    """Calls advise() after `init`. A store never sees the optimizer; Trainer and Module have both."""

    @functools.wraps(init)
    def init_and_advise(owner: Any, *args: Any, **kwargs: Any) -> Any:
        result = init(owner, *args, **kwargs)
        if isinstance(owner._kvstore, Hipress):
            owner._kvstore.advise(owner._optimizer)
        return result

    return init_and_advise


mx.gluon.Trainer._init_kvstore = _advised(mx.gluon.Trainer._init_kvstore)
mx.module.Module.init_optimizer = _advised(mx.module.Module.init_optimizer)


def _checked(update: Callable[[mx.module.Module], None]) -> Callable[[mx.module.Module], None]:
    """Tells the store the Module's parameters after each update."""

    @functools.wraps(update)
    def update_and_check(self: mx.module.Module) -> None:
        update(self)
        if isinstance(self._kvstore, Hipress):
            group = self._exec_group
            named = zip(self._param_names, group.param_arrays, strict=True)
            self._kvstore.updated((name, each[0]) for name, each in named if group.grad_req[name] != "null")

    return update_and_check


mx.module.Module.update = _checked(mx.module.Module.update)
