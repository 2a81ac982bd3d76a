# SPDX-License-Identifier: Apache-2.0
"""The names by which ranks match the operators of a graph.

Each rank may run the operators of a graph in another order, so each operator has its own name. The name depends only on
the traced function, not on functions traced before: ranks may trace functions at different times, or more often. The
kernel adds the iteration of loops (operators/operator_names.h).
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops.control_flow_v2_func_graphs import (
    CondBranchFuncGraph,
    WhileBodyFuncGraph,
    WhileCondFuncGraph,
)

#: The numbers in TensorFlow's names of functions, such as "cond_1_true_12_grad_40".
_NUMBER = re.compile(r"_\d+(?=_grad|_rewritten|$)")
#: The part of TensorFlow's names that tells the branches of one tf.cond() or tf.switch_case() apart, derivatives too.
_BRANCH = re.compile(r"_(true|false|branch\d+)((_grad|_rewritten)*)$")
#: The beginning of TensorFlow's name of a function that has the derivatives of another function.
_DERIVATIVE = "__backward_"


class _Names:
    """The names in use in one graph."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._constructs: dict[str, list[set[str]]] = {}
        self._places: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def own(self, name: str) -> str:
        """`name` the first time, then `name#2`, `name#3` and so on."""
        self._taken[name] = self._taken.get(name, 0) + 1
        return name if self._taken[name] == 1 else f"{name}#{self._taken[name]}"

    def place_of(self, inner: Any) -> str:
        """The name of a loop, a branch or a derivative function `inner` of this graph.

        All branches of one tf.cond() have the same name: only one branch runs, perhaps another branch on each rank.
        """
        if inner not in self._places:
            branch = _NUMBER.sub("", inner.name)
            construct = _BRANCH.sub(r"\2", branch) if isinstance(inner, CondBranchFuncGraph) else branch
            seen = self._constructs.setdefault(construct, [set()])
            if branch in seen[-1]:  # the branch is of another construct: a second derivative
                seen.append(set())
            seen[-1].add(branch)
            self._places[inner] = construct if len(seen) == 1 else f"{construct}#{len(seen)}"
        return self._places[inner]


_names: weakref.WeakKeyDictionary[Any, _Names] = weakref.WeakKeyDictionary()


def own_names(names: Sequence[str]) -> list[str]:
    """Unique names, in the current graph, for an operator that is made now. Eager operations run one after the other,
    so for them `names` stay unchanged.
    """
    if tf.executing_eagerly():
        return list(names)
    graph = tf.compat.v1.get_default_graph()
    place = _place(graph)
    return [_names_in(graph).own(f"{name}@{place}" if place else name) for name in names]


def unnamed() -> str:
    """The name, before own_names(), of an operator of the current graph for which the script gave none."""
    graph = tf.compat.v1.get_default_graph()
    while _is_control_flow(graph):
        graph = graph.outer_graph
    return f"unnamed in {_NUMBER.sub('', getattr(graph, 'name', 'graph'))}"


class _Effects(list[Any]):
    """All operators with effects of a graph; TensorFlow iterates over them when it makes a function of the graph."""

    def __init__(self, graph: Any) -> None:
        super().__init__()
        self._graph = weakref.ref(graph)

    def __iter__(self) -> Iterator[Any]:
        graph = self._graph()
        return iter([] if graph is None else [each for each in graph.get_operations() if each._is_stateful])


def end_with_effects(graph: Any) -> None:
    """Makes the derivative function around `graph` end only after its operators with effects have ended.

    Otherwise TensorFlow lets the function end when its results are there; a second call with the same names could
    overlap.
    """
    around = [graph]
    while _is_control_flow(around[-1]):
        around.append(around[-1].outer_graph)
    if not getattr(around[-1], "name", "").startswith(_DERIVATIVE):
        return
    for each in around:
        # TensorFlow does the same in graphs where it keeps operators with effects in order.
        orders = getattr(each, "experimental_acd_manager", None) is not None
        if not orders and not isinstance(each.control_outputs, _Effects):
            each.control_outputs = _Effects(each)


def loops() -> int:
    """Number of loops, in its function, around an operator that is made now."""
    count = 0
    graph = tf.compat.v1.get_default_graph()
    while True:
        context = graph._get_control_flow_context()  # of tf.compat.v1 without control flow v2
        while context is not None:
            count += bool(context.IsWhileContext())
            context = context.outer_context
        if not _is_control_flow(graph):
            return count
        count += isinstance(graph, (WhileBodyFuncGraph, WhileCondFuncGraph))
        graph = graph.outer_graph


def _names_in(graph: Any) -> _Names:
    if graph not in _names:
        _names[graph] = _Names()
    return _names[graph]


def _is_control_flow(graph: Any) -> bool:
    """Whether the graph is of a loop or a branch, not of a function."""
    return isinstance(graph, (CondBranchFuncGraph, WhileBodyFuncGraph, WhileCondFuncGraph))


def _is_derivative(graph: Any) -> bool:
    """Whether the graph is of a derivative function that an outer graph calls, not eager code."""
    if not getattr(graph, "name", "").startswith(_DERIVATIVE):
        return False
    return isinstance(graph.outer_graph, FuncGraph) or not tf.compat.v1.executing_eagerly_outside_functions()


def _place(graph: Any) -> str:
    """The loops, branches and derivatives around an operator of `graph`, from the outermost."""
    places: list[str] = []
    while _is_control_flow(graph) or _is_derivative(graph):
        places.insert(0, _names_in(graph.outer_graph).place_of(graph))
        graph = graph.outer_graph
    return "/".join(places)
