# SPDX-License-Identifier: Apache-2.0
"""The collectives of a graph: what they combine, over which group, and the gradients that travel in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from hipress.torch.installed.private_names import COLLECTIVE_OPERATORS

#: Of operators that combine values, how their names begin. compress_graph() replaces the first two.
_REDUCING = ("all_reduce", "reduce_scatter")
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = "all_reduce", "reduce_scatter_tensor", "all_gather_into_tensor"
#: They change nothing but the shape.
_SHAPING = ("view", "reshape", "flatten", "_unsafe_view")


@dataclass
class Collective:
    """One operator of torch's functional collectives in a graph."""

    node: fx.Node
    kind: str
    """The operator's name, such as "all_reduce"."""
    op: str
    """How it combines values; empty: not at all."""
    group: str
    value: Any
    """The input as torch has traced it, with shape and type; None: the graph does not show it."""

    @property
    def given(self) -> fx.Node:
        """The input."""
        node = self.node.args[0]
        assert isinstance(node, fx.Node)
        return node


@dataclass(frozen=True)
class Part:
    """A gradient that travels in a collective."""

    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Its elements."""
        return math.prod(self.shape)


def collectives_of(graph: fx.Graph, *, gathers: bool) -> Iterator[Collective]:
    """All reductions of a graph, in its order; with `gathers` the all-gathers, too."""
    for node in graph.nodes:
        name = operator_name(node)
        if not name.startswith(COLLECTIVE_OPERATORS):
            continue
        kind = name.removeprefix(COLLECTIVE_OPERATORS).removesuffix(".default")
        if kind.startswith(_REDUCING):
            arguments = [each for each in node.args[1:] if isinstance(each, str)]
            op, group = (*arguments, "", "")[:2]
        elif gathers and kind.startswith("all_gather"):
            op, group = "", next((each for each in reversed(node.args) if isinstance(each, str)), "")
        else:
            continue
        given = node.args[0] if node.args else None
        yield Collective(node, kind, op, group, value_of(given) if isinstance(given, fx.Node) else None)


def operator_name(node: fx.Node) -> str:
    """Such as "aten.view.default"; empty for nodes that are no calls of operators."""
    return str(node.target) if node.op == "call_function" else ""


def value_of(node: fx.Node) -> Any:
    """What the node gives, as torch has traced it: an object with shape and type, or None."""
    return next((node.meta[key] for key in ("val", "example_value", "tensor_meta") if key in node.meta), None)


def parts_of(source: fx.Node, value: Any) -> tuple[Part, ...]:
    """The gradients in the input of a reduction: those of a concatenation of flattened tensors, or the input itself."""
    if not operator_name(source).startswith("aten.cat"):
        return (_part(value),)
    given = source.args[0]
    assert isinstance(given, Sequence)
    if len(value.shape) != 1:
        return (_part(value),)
    parts = [_unflattened(each) for each in given if isinstance(each, fx.Node)]
    whole = tuple(part for part in parts if part is not None)
    if len(whole) != len(given) or sum(part.count for part in whole) != int(value.shape[0]):
        return (_part(value),)
    return whole


def average_of(collective: Collective, world: int) -> fx.Node:
    """What a sum of values that were divided by the number of ranks is the average of; otherwise the input."""
    given = collective.given
    name, arguments = operator_name(given), given.args
    if collective.op != "sum" or len(given.users) != 1 or len(arguments) < 2 or not isinstance(arguments[0], fx.Node):
        return given
    other = arguments[1]
    if isinstance(other, bool) or not isinstance(other, int | float) or given.kwargs:
        return given
    divided = name.startswith(("aten.div.Tensor", "aten.div.Scalar")) and other == world
    scaled = name.startswith(("aten.mul.Tensor", "aten.mul.Scalar")) and other == 1 / world
    return arguments[0] if divided or scaled else given


def is_only_for(source: fx.Node, *users: fx.Node) -> bool:
    """Whether a node joins tensors that nothing but these users reads, so that its memory is theirs.

    TorchInductor may let the tensors begin in that memory. So nothing else may read them either.
    """
    if not operator_name(source).startswith("aten.cat") or not set(source.users) <= set(users):
        return False
    joined = source.args[0]
    assert isinstance(joined, Sequence)
    for flat in joined:
        if not isinstance(flat, fx.Node) or set(flat.users) != {source} or not flat.args:
            return False
        before = flat.args[0]
        if not isinstance(before, fx.Node) or before.op != "call_function" or set(before.users) != {flat}:
            return False
    return True


def _unflattened(node: fx.Node) -> Part | None:
    name = operator_name(node)
    before = node.args[0] if node.args else None
    shaped = name.startswith("aten.") and name.split(".")[1] in _SHAPING
    value = value_of(before if shaped and isinstance(before, fx.Node) else node)
    return None if value is None else _part(value)


def _part(value: Any) -> Part:
    return Part(tuple(int(size) for size in value.shape))


def is_fixed(value: Any) -> bool:
    """Whether the shape has no size that depends on the input."""
    return not any(isinstance(size, torch.SymInt) for size in value.shape)
