# SPDX-License-Identifier: Apache-2.0
"""The base class of this package's optimizers: parameter names, checks, steps, state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from hipress.adapter.not_copied import NotCopied
from hipress.errors import DuplicateName, InvalidArgument, Unsupported
from hipress.log import logger
from hipress.torch.installed.private_names import has_stepped
from hipress.torch.optim.carrier import Carrier, carrier_of
from hipress.torch.optim.engine_carrier import EngineCarrier
from hipress.torch.optim.travel import Travel
from hipress.torch.replicas import ReplicaCheck
from hipress.torch.scaling.loss_scale import scaler_in_use
from hipress.torch.states.state_sum import SUM, check_against, sum_of
from hipress.torch.synchronizer import GradientSynchronizer

Values = dict[str, torch.Tensor]


class SynchronizingOptimizer(NotCopied, torch.optim.Optimizer):
    """An optimizer whose step() exchanges values with all ranks. All ranks call it in the same order.

    A missing gradient counts as zeros. If the exchange raises, step() has changed nothing.
    """

    def __init__(self, params: Any, defaults: dict[str, Any], travel: Travel, group: dist.ProcessGroup | None) -> None:
        self._carrier: Carrier | None = None
        self._travel = travel
        self._scaler_refused = False  # whether no GradScaler steps this optimizer, as the first step has found
        super().__init__(params, defaults)
        self._parameters = _named(self)
        travel.check(list(self._parameters))
        kind = type(self).__name__.lower()
        shapes = {name: each.shape for name, each in self._parameters.items()}
        self._carrier = carrier_of(kind, shapes, travel, group)
        self._carrier.agree({"the optimizer": type(self).__name__, **self._agreed()})
        self._check = ReplicaCheck(self._carrier.agree, self._parameters.items)

    def _agreed(self) -> dict[str, str]:
        """Values that must be the same on all ranks: learning rates and other options of the groups."""
        groups = [{k: v for k, v in each.items() if k not in ("params", "param_names")} for each in self.param_groups]
        return {"options": str(groups)}

    def _exchange(self) -> Carrier:
        assert self._carrier is not None
        return self._carrier

    def _carriers(self) -> dict[str, Carrier]:
        """All carriers that keep residuals, by their key in state_dict()."""
        return {"codecs": self._exchange()}

    @property
    def synchronizers(self) -> list[GradientSynchronizer]:
        """The engine's lists of gradients, which have the codec states. Raises InvalidArgument over a process group."""
        lists = [each.synchronizer for each in self._carriers().values() if isinstance(each, EngineCarrier)]
        if not lists:
            raise InvalidArgument(
                f"this {type(self).__name__} has a process group, not the engine: its state_dict() has its residuals"
            )
        return lists

    @property
    def sent_bytes(self) -> int:
        """Number of bytes that this rank has sent. The engine counts all bytes since `init()`; a process group counts
        only compressed and gathered values."""
        carriers = list(self._carriers().values())
        # The engine counts the bytes of the whole process, so one of several carriers has the sum.
        return carriers[0].sent_bytes if isinstance(carriers[0], EngineCarrier) else sum(c.sent_bytes for c in carriers)

    @property
    def steps(self) -> int:
        """Number of steps so far; steps before load_state_dict() count, too."""
        first = next(iter(self._parameters.values()))
        return int(self.state[first]["step"]) if self.state[first] else 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes one step. Raises PeerLost, Timeout, CorruptPayload, TransportError; InvalidArgument: see the class."""
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        for name, parameter in self._parameters.items():
            if parameter.grad is not None and parameter.grad.layout != torch.strided:
                raise Unsupported(f"the gradient of '{name}' is sparse: {type(self).__name__} takes dense ones")
        self._refuse_scaler()
        with torch.no_grad():
            self._step(self.steps + 1)
        if self._has_equal_replicas():
            self._check.after(self.steps)
        return value

    def _has_equal_replicas(self) -> bool:
        """Whether all ranks have the same parameters now."""
        return True

    def _refuse_scaler(self) -> None:
        """Raises Unsupported, in the first step, if a GradScaler steps this optimizer."""
        if self._scaler_refused:
            return
        scaler = scaler_in_use()
        if scaler is not None and has_stepped(scaler, self):
            raise Unsupported(
                f"a {type(scaler).__name__} steps this {type(self).__name__}: it would leave out steps on single "
                "ranks, whose gradients are not finite, and the others would wait; compute in bfloat16 without it"
            )
        self._scaler_refused = True

    def _step(self, step: int) -> None:
        """Step number `step`, counted from 1, without autograd."""
        raise NotImplementedError

    def _gradient(self, parameter: torch.Tensor) -> torch.Tensor:
        """A copy of this rank's gradient, row-major."""
        gradient = parameter.grad
        return (
            torch.zeros(parameter.shape) if gradient is None else gradient.clone(memory_format=torch.contiguous_format)
        )

    def _by_group(self) -> list[tuple[dict[str, Any], Values]]:
        """The parameters of each group, by name."""
        names = iter(self._parameters)
        return [(group, {next(names): each for each in group["params"]}) for group in self.param_groups]

    def _count(self, step: int) -> None:
        for parameter in self._parameters.values():
            self.state[parameter]["step"] = torch.tensor(float(step))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group while the constructor runs; raises Unsupported afterwards."""
        if self._carrier is not None:
            raise Unsupported(
                f"add_param_group(): the ranks have agreed on the parameters of this {type(self).__name__}: make "
                "another one with all parameters, and give it the state of this one"
            )
        super().add_param_group(param_group)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise Unsupported(f"{type(self).__name__} cannot be pickled: save what state_dict() returns")

    def state_dict(self) -> dict[str, Any]:
        """torch's state_dict() and, under "hipress", the residuals of this rank. Every rank saves its own.

        codec_states() returns the mean of the residuals over all ranks, which any number of ranks can load.
        """
        carrier = self._exchange()
        own = {
            "optimizer": type(self).__name__,
            "names": list(self._parameters),
            "rank": carrier.rank,
            "world": carrier.world,
            **{key: each.state_dict() for key, each in self._carriers().items()},
            **self._own_state(),
        }
        whole = super().state_dict()
        own[SUM] = self._sum_of(whole, own)
        return {**whole, "hipress": own}

    def _sum_of(self, whole: Mapping[str, Any], own: Mapping[str, Any]) -> int:
        """Of the values that may differ between ranks."""
        return sum_of([whole["state"], *(own[key] for key in self._carriers())])

    def _own_state(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state_dict() of this rank; all ranks call it at the same step.

        It drops the residuals if the state is of another rank or of another world size; the logger "hipress" then
        warns.

        Raises InvalidArgument, with the first difference, for the state of other parameters; the state is then
        unchanged.
        """
        own = state_dict.get("hipress")
        self._check_state(state_dict, own)
        if own is not None:
            check_against(own.get(SUM), lambda: self._sum_of(state_dict, own))
        carrier = self._exchange()
        codecs = {key: None if own is None else own[key] for key in self._carriers()}
        of_another = own is not None and (own["rank"], own["world"]) != (carrier.rank, carrier.world)
        for key, each in self._carriers().items():
            each.load_state_dict(None if of_another else codecs[key])
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "hipress"})
        if (
            own is not None
            and of_another
            and (self._forget_residuals() or any(each is not None for each in codecs.values()))
        ):
            logger().warning(
                "the state of %s is of rank %d of %d, and this is rank %d of %d: its residuals are left out",
                *(type(self).__name__, own["rank"], own["world"], carrier.rank, carrier.world),
            )

    def _forget_residuals(self) -> bool:
        """Drops the state that is of one rank only; returns whether there is such a state."""
        return False

    def _check_state(self, state_dict: Mapping[str, Any], own: Mapping[str, Any] | None) -> None:
        missing = set() if own is None else {"optimizer", "names", "rank", "world", *self._carriers()} - own.keys()
        if missing:
            raise InvalidArgument(f"the state lacks 'hipress.{min(missing)}': no state_dict() of HiPress wrote it")
        if own is not None and own["optimizer"] != type(self).__name__:
            raise InvalidArgument(f"the state is of {own['optimizer']}, not of {type(self).__name__}")
        saved = state_dict["state"]
        if own is not None:
            for theirs, name in zip(own["names"], self._parameters, strict=False):
                if theirs != name:
                    raise InvalidArgument(f"the state is of other parameters: it has '{theirs}' in place of '{name}'")
        if saved and len(saved) != len(self._parameters):
            raise InvalidArgument(f"the state is of {len(saved)} parameters, the optimizer has {len(self._parameters)}")
        for number, (name, parameter) in enumerate(self._parameters.items()):
            for key, value in saved.get(number, {}).items():
                if isinstance(value, torch.Tensor) and value.dim() and value.shape != parameter.shape:
                    raise InvalidArgument(
                        f"the state '{key}' of '{name}' has shape {list(value.shape)}, the parameter "
                        f"{list(parameter.shape)}"
                    )


def _named(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimizer's parameters by name. Raises DuplicateName, InvalidArgument, Unsupported."""
    pairs: list[tuple[str, torch.Tensor]] = []
    for group in optimizer.param_groups:
        first = len(pairs)
        names = group.get("param_names") or [f"parameter.{first + place}" for place in range(len(group["params"]))]
        pairs += zip(names, group["params"], strict=True)
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise DuplicateName(f"two parameters are called '{twice[0]}'; give every parameter its own name")
    for name, each in pairs:
        if hasattr(each, "to_local"):
            raise Unsupported(f"parameter '{name}' is sharded (FSDP2): {type(optimizer).__name__} takes whole ones")
        if each.device.type != "cpu":
            raise Unsupported(
                f"parameter '{name}' is on {each.device}, and {type(optimizer).__name__} computes on the CPU: keep the "
                'model there, or wrap torch\'s own optimizer in DistributedOptimizer with codec="int8" or "int4"'
            )
        if each.dtype != torch.float32:
            raise Unsupported(
                f"parameter '{name}' is of type {each.dtype}: {type(optimizer).__name__} takes float32; keep the "
                "parameters float32 and compute under torch.autocast"
            )
        if each.numel() == 0:
            raise InvalidArgument(f"parameter '{name}' has no elements: leave it out")
    return dict(pairs)
