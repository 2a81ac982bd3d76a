# SPDX-License-Identifier: Apache-2.0
"""The names under which ranks match the operators of a graph.

The operators of a graph run in no order that all ranks share, so each has a name of its own. It depends on the function
that is traced and on nothing that was traced before: ranks may trace functions at other times, or more often. The
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

#: The numbers of functions in TensorFlow's names of them: "cond_1_true_12_grad_40".
_NUMBER = re.compile(r"_\d+(?=_grad|_rewritten|$)")
#: TensorFlow's names of the branches of one tf.cond(), tf.switch_case(), and their derivatives.
_BRANCH = re.compile(r"_(true|false|branch\d+)((_grad|_rewritten)*)$")
#: In TensorFlow's name of the function that has the derivatives of another one.
_DERIVATIVE = "__backward_"


class _Names:
    """The names that are taken in one graph."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._constructs: dict[str, list[set[str]]] = {}
        self._places: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def own(self, name: str) -> str:
        """`name` the first time, then `name#2`, `name#3` and so on."""
        self._taken[name] = self._taken.get(name, 0) + 1
        return name if self._taken[name] == 1 else f"{name}#{self._taken[name]}"

    def place_of(self, inner: Any) -> str:
        """How a loop, a branch or derivatives in this graph are called.

        All branches of one tf.cond() are called the same: one of them runs, perhaps another one on each rank.
        """
        if inner not in self._places:
            branch = _NUMBER.sub("", inner.name)
            construct = _BRANCH.sub(r"\2", branch) if isinstance(inner, CondBranchFuncGraph) else branch
            seen = self._constructs.setdefault(construct, [set()])
            if branch in seen[-1]:  # of another construct: a derivative taken a second time
                seen.append(set())
            seen[-1].add(branch)
            self._places[inner] = construct if len(seen) == 1 else f"{construct}#{len(seen)}"
        return self._places[inner]


_names: weakref.WeakKeyDictionary[Any, _Names] = weakref.WeakKeyDictionary()


def own_names(names: Sequence[str]) -> list[str]:
    """For an operator that is made in the current graph, names that no other operator of this graph has; eagerly,
    where operations come one after the other, `names` as they are.
    """
    if tf.executing_eagerly():
        return list(names)
    graph = tf.compat.v1.get_default_graph()
    place = _place(graph)
    return [_names_in(graph).own(f"{name}@{place}" if place else name) for name in names]


def unnamed() -> str:
    """The name, before own_names(), of an operator of the current graph that was given none."""
    graph = tf.compat.v1.get_default_graph()
    while _is_control_flow(graph):
        graph = graph.outer_graph
    return f"unnamed in {_NUMBER.sub('', getattr(graph, 'name', 'graph'))}"


class _Effects(list[Any]):
    """All operators of a graph that have effects, when TensorFlow makes a function of it."""

    def __init__(self, graph: Any) -> None:
        super().__init__()
        self._graph = weakref.ref(graph)

    def __iter__(self) -> Iterator[Any]:
        graph = self._graph()
        return iter([] if graph is None else [each for each in graph.get_operations() if each._is_stateful])


def end_with_effects(graph: Any) -> None:
    """A function of derivatives that has an operator in `graph` ends when its operators have.

    TensorFlow lets it end when its results are there; a second call, which has the same names, could overlap.
    """
    around = [graph]
    while _is_control_flow(around[-1]):
        around.append(around[-1].outer_graph)
    if not getattr(around[-1], "name", "").startswith(_DERIVATIVE):
        return
    for each in around:
        # TensorFlow does it itself where it keeps operators with effects in order.
        orders = getattr(each, "experimental_acd_manager", None) is not None
        if not orders and not isinstance(each.control_outputs, _Effects):
            each.control_outputs = _Effects(each)


def loops() -> int:
    """How many loops of its function an operator that is made now is in."""
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
    """Whether it is a loop's or a branch's, and no function's."""
    return isinstance(graph, (CondBranchFuncGraph, WhileBodyFuncGraph, WhileCondFuncGraph))


def _is_derivative(graph: Any) -> bool:
    """Whether it is of derivatives that a graph around it calls, and not eager code."""
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
