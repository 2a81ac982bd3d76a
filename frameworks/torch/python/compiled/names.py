# SPDX-License-Identifier: Apache-2.0
"""The names of the gradients in a graph, under which error feedback keeps their residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from hipress.torch.compiled.reductions import Collective, Part, operator_name

#: Between a reduction and the gradient that the graph returns.
_PASSED = (
    "_c10d_functional.",
    "aten.view",
    "aten.reshape",
    "aten._unsafe_view",
    "aten.alias",
    "aten.clone",
    "aten.div",
)


def names_of(graph: fx.Graph, found: Sequence[tuple[Collective, tuple[Part, ...]]]) -> list[tuple[str, ...]]:
    """A name for each gradient of each collective. If the graph shows the parameter, its name; otherwise the
    gradient's place among those of its group, and its shape: the same in another graph of the same model, for example
    for batches of another size."""
    parameters = _parameters(graph)
    totals: dict[tuple[str, str], int] = {}
    for collective, parts in found:
        key = _list_of(collective)
        totals[key] = totals.get(key, 0) + len(parts)
    places: dict[tuple[str, str], int] = {}
    result = []
    taken: set[tuple[str, str, str]] = set()
    for collective, parts in found:
        key = _list_of(collective)
        parameter = parameters.get(collective.node)
        names = []
        for part in parts:
            place = places[key] = places.get(key, 0) + 1
            shape = "x".join(map(str, part.shape)) or "scalar"
            name = f"{collective.kind} {place} of {totals[key]}, {shape}"
            if parameter is not None and len(parts) == 1 and (*key, parameter) not in taken:
                taken.add((*key, parameter))
                name = parameter
            names.append(name)
        result.append(tuple(names))
    return result


def _list_of(collective: Collective) -> tuple[str, str]:
    return collective.group, collective.kind


def _parameters(graph: fx.Graph) -> Mapping[fx.Node, str]:
    """The parameters whose gradients the graph returns, by the collectives through which these have come."""
    output = next((node for node in graph.nodes if node.op == "output"), None)
    if output is None:
        return {}
    found: dict[fx.Node, str] = {}
    for returned, described in zip(_flat(output.args[0]), _flat(output.meta.get("desc", ())), strict=False):
        name = _parameter_of(described)
        node = returned
        while name and isinstance(node, fx.Node) and operator_name(node).startswith(_PASSED):
            found.setdefault(node, name)
            node = node.args[0] if node.args else None
    return found


def _parameter_of(described: Any) -> str:
    """The parameter of a gradient, from what torch's joint graphs say of an output; empty: it is none."""
    while hasattr(described, "base"):  # a part of a tensor of another type, such as the shard of a DTensor
        described = described.base
    return str(getattr(getattr(described, "grad_of", None), "target", ""))


def _flat(values: Any) -> Sequence[Any]:
    if not isinstance(values, list | tuple):
        return [values]
    return [each for value in values for each in (_flat(value) if isinstance(value, list | tuple) else [value])]
