# SPDX-License-Identifier: Apache-2.0
"""The state of a training with torch that survives lost ranks, under Horovod's name."""

from __future__ import annotations

from typing import Any

import torch

from hipress import runtime
from hipress.adapter.objects import broadcast_object
from hipress.elastic import ObjectState
from hipress.torch.elastic.handlers import StateHandler, handler_of


class TorchState(ObjectState):
    """Models, optimizers, schedulers, samplers and plain values, each an attribute.

    What codecs of a DistributedOptimizer keep on each rank is part of it: a commit keeps it, and it moves into the next
    world of ranks. A new rank begins without residuals.

    Arguments:
        model, optimizer: the usual two; others have names of their own, such as `scheduler=...`.
        kwargs: any objects. get_handler_registry() has the types that are kept in their own way; all others are plain
            values, which pickle takes.
    """

    def __init__(
        self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None, **kwargs: Any
    ) -> None:
        given = {**kwargs, "model": model, "optimizer": optimizer}
        self._handlers: dict[str, StateHandler] = {}
        for name, value in given.items():
            handler = handler_of(value)
            if handler is not None:
                self._handlers[name] = handler
                setattr(self, name, value)
        plain = {name: value for name, value in given.items() if name not in self._handlers}
        super().__init__(broadcast_object, runtime.rank, **plain)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name) and name in self._handlers:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def before_reset(self) -> None:
        for handler in self._handlers.values():
            handler.before_reset()

    def position(self) -> list[int]:
        return [steps for handler in self._handlers.values() for steps in handler.steps()]

    def residual(self) -> float:
        return sum(handler.residual() for handler in self._handlers.values())
