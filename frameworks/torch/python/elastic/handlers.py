# SPDX-License-Identifier: Apache-2.0
"""How TorchState keeps and sends each kind of object: models, optimizers, schedulers, samplers."""

from __future__ import annotations

import copy
from typing import Any

import torch

from hipress.adapter.lists.moved_states import CommittedStates
from hipress.adapter.objects import broadcast_object
from hipress.torch.distributed_optimizer import DistributedTorchOptimizer
from hipress.torch.elastic.sampler import ElasticSampler
from hipress.torch.state import broadcast_optimizer_state, broadcast_parameters
from hipress.torch.synchronizer import GradientSynchronizer


class StateHandler:
    """Keeps one object. A derived class copies its state in save(), goes back in restore(), and gives rank 0's to all
    ranks in sync()."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Keeps this object from now on."""
        self.value = value
        self.save()

    def before_reset(self) -> None:
        """See State."""

    def steps(self) -> list[int]:
        """Numbers that all ranks have alike when they commit."""
        return []

    def residual(self) -> float:
        """See State."""
        return 0.0


class _DictHandler(StateHandler):
    """Of an object with state_dict() and load_state_dict()."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._saved = copy.deepcopy(value.state_dict())

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()


class ModelStateHandler(_DictHandler):
    """Of a model."""

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class LRSchedulerStateHandler(_DictHandler):
    """Of a learning-rate scheduler."""


class SamplerStateHandler(_DictHandler):
    """Of an ElasticSampler."""


class OptimizerStateHandler(StateHandler):
    """Of an optimizer, and of what the codecs of a distributed one keep. These differ between ranks: each rank takes
    its own into a world of other ranks, see moved_states.py."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.set_value(value)

    def set_value(self, value: Any) -> None:
        self._tensors: GradientSynchronizer | None = None
        self._codecs: CommittedStates | None = None
        if isinstance(value, DistributedTorchOptimizer):
            self._tensors = value._hipress.synchronizer
            self._codecs = CommittedStates(self._tensors)
        super().set_value(value)

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())
        self.before_reset()

    def restore(self) -> None:
        # load_state_dict() takes the tensors themselves into the optimizer, which would change the copy.
        self.value.load_state_dict(copy.deepcopy(self._saved))
        if self._codecs is not None:
            self._codecs.restore()

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        if self._codecs is not None:
            self._codecs.sync()
        self.save()

    def before_reset(self) -> None:
        if self._codecs is not None:
            self._codecs.save()

    def steps(self) -> list[int]:
        return [] if self._tensors is None else [self._tensors.steps]

    def residual(self) -> float:
        return 0.0 if self._codecs is None else self._codecs.residual()


_handler_registry: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (torch.optim.lr_scheduler.LRScheduler, LRSchedulerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, type[StateHandler]]]:
    """The handler of each type; the first that fits is taken."""
    return _handler_registry


def set_handler_registry(registry: list[tuple[type, type[StateHandler]]]) -> None:
    """Replaces the handlers."""
    global _handler_registry
    _handler_registry = registry


def handler_of(value: Any) -> StateHandler | None:
    """A handler for the object; None for a plain value."""
    return next((handler(value) for kind, handler in _handler_registry if isinstance(value, kind)), None)
