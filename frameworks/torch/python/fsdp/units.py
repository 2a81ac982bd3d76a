# SPDX-License-Identifier: Apache-2.0
"""The units into which `fully_shard` divides a model. The shards of one unit's parameters travel as one flat tensor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from hipress.errors import InvalidArgument, Mismatch, Unsupported
from hipress.torch.installed.private_names import (
    all_gather_of,
    is_before_backward,
    local_shard_of,
    parameter_groups,
    place_of,
    reduce_scatter_of,
    version_of,
)
from hipress.torch.process_groups.agreement import agreeing
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.replicas import ReplicaCheck
from hipress.torch.wrapped import unwrapped, without_wrappers


class Unit:
    """The parameters that one call of `fully_shard` has sharded."""

    def __init__(self, name: str, module: Any, names: Mapping[Any, str]) -> None:
        """`names`: of all modules of the model."""
        self.name = name or "the root module"
        self.module = module
        self.steps = 0
        #: Shapes of this rank's shards, with the padding that travels, by the parameter's name.
        self.shapes: dict[str, TensorShape] = {}
        #: The same as FSDP2 gathers them before a forward or backward pass, also of parameters without gradients.
        self.gathered: dict[str, TensorShape] = {}
        #: Whether FSDP2 gathers bytes: a parameter's type makes them by itself, or the parameters have several types.
        self.gathers_bytes = False
        self.shard_group: dist.ProcessGroup | None = None
        #: Over which FSDP2 averages by itself.
        self.replicate_group: dist.ProcessGroup | None = None
        #: Of the gradients' shards.
        self.device = torch.device("cpu")
        self._names: list[str] = []
        self._groups = parameter_groups(module)
        if len(self._groups) > 1:
            raise Unsupported(f"{self.name} has several groups of parameters, for which FSDP2 takes no hook")
        for group in self._groups:
            self.device = group.device
            self.replicate_group = getattr(group.mesh_info, "replicate_process_group", None)
            self.shard_group = getattr(group.mesh_info, "shard_process_group", None)
            self._names = [_name_of(each, names) for each in group.fsdp_params]
            for parameter, each in zip(self._names, group.fsdp_params, strict=True):
                self.gathered[parameter] = _shape(each, _computing_type(group.mp_policy, each.sharded_param))
                if each.sharded_param.requires_grad:
                    self.shapes[parameter] = _shape(each, _travelling_type(group.mp_policy, each.sharded_param))
            types = {shape.dtype for shape in self.gathered.values()}
            extended = (hasattr(local_shard_of(each), "fsdp_pre_all_gather") for each in group.fsdp_params)
            self.gathers_bytes = len(types) > 1 or any(extended)

    @property
    def is_hybrid(self) -> bool:
        """Whether FSDP2 averages over replicas by itself."""
        return self.replicate_group is not None

    def reduce_within(self, context: Callable[[], contextlib.AbstractContextManager[None]] | None) -> None:
        """FSDP2 reduces the unit's gradients within such a context from now on; None: as before."""
        for group in self._groups:
            vars(group).pop("post_backward", None)
            if context is not None:
                group.post_backward = _within(context, group.post_backward)

    def scatter_by(self, scatter: Any) -> Any:
        """FSDP2 calls `scatter` for the unit's reduce-scatter from now on. Returns what it has called before."""
        (group,) = self._groups
        before = reduce_scatter_of(group)
        self.module.set_custom_reduce_scatter(scatter)
        return before

    def gather_by(self, gather: Any) -> Any:
        """FSDP2 calls `gather` for the unit's all-gather from now on. Returns what it has called before."""
        (group,) = self._groups
        before = all_gather_of(group)
        self.module.set_custom_all_gather(gather)
        return before

    @property
    def in_backward(self) -> bool:
        """Whether FSDP2 gathers the unit's parameters for a backward pass now."""
        return any(is_before_backward(group) for group in self._groups)

    @property
    def parameters(self) -> list[Any]:
        """As the optimizer has them."""
        return [each.sharded_param for group in self._groups for each in group.fsdp_params]

    @property
    def counted_changes(self) -> tuple[int, ...]:
        """torch's counters of changes in place, for each parameter."""
        return tuple(version_of(parameter) for parameter in self.parameters)

    def replica_check(self, group: dist.ProcessGroup) -> ReplicaCheck:
        """Compares this rank's shards with those of the other ranks of a group that has the same ones."""
        return ReplicaCheck(agreeing(group, self.device), self._shards)

    def _shards(self) -> list[tuple[str, torch.Tensor]]:
        return [(name, each.to_local()) for name, each in zip(self._names, self.parameters, strict=True)]

    @property
    def shard(self) -> tuple[int, int]:
        """The number of this rank's shard, and how many there are."""
        return (0, 1) if self.shard_group is None else (self.shard_group.rank(), self.shard_group.size())

    @property
    def elements(self) -> int:
        """Number of elements of all shards of this rank; of complex ones twice as many."""
        return sum(shape.count for shape in self.shapes.values())

    def check_elements(self, gradients: torch.Tensor) -> None:
        """Raises Mismatch if the gradients have another number of elements than the parameters."""
        elements = gradients.numel()
        if elements != self.elements:
            raise Mismatch(
                f"{self.name} has gradients of {elements} elements, and its parameters have {self.elements}: "
                "every parameter of a unit that runs must have one in each backward pass, as after "
                "set_reduce_scatter_unused_params(True)"
            )


def shards_of(units: Sequence[Unit]) -> list[list[int]]:
    """Of each unit, for checkpoints."""
    return [list(unit.shard) for unit in units]


def of_same_shards(saved: Sequence[Mapping[str, Any]], units: Sequence[Unit]) -> list[Mapping[str, Any]]:
    """The states of the ranks that had this rank's shards. Raises InvalidArgument if there are none, or if a state does
    not say which ones it is of."""
    for place, each in enumerate(saved):
        if "shards" not in each:
            raise InvalidArgument(
                f"state {place} of {len(saved)} does not say of which shards it is, as states of an earlier version: "
                "load_state_dict() takes it on as many ranks, and state_dict() there says it"
            )
    own = [each for each in saved if each.get("shards") == shards_of(units)]
    if not own:
        raise InvalidArgument(
            f"none of the {len(saved)} states is of this rank's shards: the number of ranks of a host, or the "
            "model, is another one"
        )
    return own


def _within(
    context: Callable[[], contextlib.AbstractContextManager[None]], reduce: Callable[..., Any]
) -> Callable[..., Any]:
    def within(*arguments: Any) -> Any:
        with context():
            return reduce(*arguments)

    return within


def _name_of(parameter: Any, names: Mapping[Any, str]) -> str:
    """As in `named_parameters()` of the sharded model. After a forward pass it has other objects: the root's unsharded
    parameters."""
    place = place_of(parameter)
    module = names[place.module]
    return f"{module}.{place.param_name}" if module else str(place.param_name)


def _shape(parameter: Any, dtype: torch.dtype) -> TensorShape:
    """Of this rank's shard of one of FSDP2's parameters, as values of a type."""
    parts = 2 if dtype.is_complex else 1
    count = parts * parameter.padded_sharded_param_size.numel()
    return TensorShape(count, dtype.to_real(), parameter.sharded_param.dim())


def _computing_type(policy: Any, parameter: torch.Tensor) -> torch.dtype:
    """The type of the parameter in forward and backward passes. FSDP2 casts floating-point numbers only."""
    dtype: torch.dtype = (policy.param_dtype if parameter.is_floating_point() else None) or parameter.dtype
    return dtype


def _travelling_type(policy: Any, parameter: torch.Tensor) -> torch.dtype:
    """The type of the gradients that FSDP2 sends."""
    return policy.reduce_dtype or _computing_type(policy, parameter)


def units_of(model: torch.nn.Module, caller: str) -> list[Unit]:
    """All units of a model, for the function `caller`. Raises InvalidArgument if there is none, Unsupported."""
    names = {module: without_wrappers(name) for name, module in unwrapped(model).named_modules()}
    units = [Unit(name, module, names) for module, name in names.items() if isinstance(module, FSDPModule)]
    if not units:
        raise InvalidArgument(f"no module of the model is sharded: call fully_shard() first, then {caller}()")
    return units
