# SPDX-License-Identifier: Apache-2.0
"""A graph runs its operators in any order, its loops and threads at once: each rank still matches an operator with the
same operator of the other ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from tests.ranks import Ranks
from tests.tensorflow.ranks import PREPARATION, run
from tests.tiers import thorough

pytestmark = pytest.mark.slow

#: Wrong matches happen by chance. Without names of the operators, every run of so many traces had some.
_TRACES = 3
_WEIGHTS = (1.0, 10.0, 100.0, 1000.0)


def _evaluated(how: str, build: Callable[[], Any]) -> Any:
    """The values of the tensors that `build` returns, from a new graph."""
    if how == "tf.function":
        return tf.nest.map_structure(np.asarray, tf.function(build, autograph=False)())
    with tf.Graph().as_default():
        outputs = build()
        with tf.compat.v1.Session() as session:
            return session.run(outputs)


def _first_derivatives(forward: Callable[[Any], Any]) -> list[Any]:
    value = tf.ones(4)
    result = forward(value)
    totals = [tf.reduce_sum(result * weight) for weight in _WEIGHTS]
    return [tf.gradients(total, value)[0] for total in totals]


def _second_derivatives(forward: Callable[[Any], Any]) -> list[Any]:
    value = tf.ones(4)
    result = forward(value)
    firsts = [tf.gradients(tf.reduce_sum(weight * result**3), value)[0] for weight in _WEIGHTS]
    return [tf.gradients(tf.reduce_sum(first), value)[0] for first in firsts]


_FORWARDS: dict[str, Callable[[Any], Any]] = {
    "allreduce": lambda value: hp.allreduce(value, op=hp.Sum, name="x"),
    "broadcast": lambda value: hp.broadcast(value, 0),
    "allgather": lambda value: hp.allgather(value, name="x"),
    "alltoall": lambda value: hp.alltoall(value),
    "reducescatter": lambda value: hp.reducescatter(value, op=hp.Sum),
    "grouped_reducescatter": lambda value: hp.grouped_reducescatter([value, value], op=hp.Sum, name="x")[0],
}


def _derivatives(how: str, order: int) -> list[dict[str, list[list[float]]]]:
    hp.init()
    derivatives = _first_derivatives if order == 1 else _second_derivatives

    def build() -> Any:
        return {kind: derivatives(forward) for kind, forward in _FORWARDS.items()}

    return [
        {kind: [row.tolist() for row in rows] for kind, rows in _evaluated(how, build).items()} for _ in range(_TRACES)
    ]


@pytest.fixture(scope="module")
def fresh() -> Any:
    """Processes that have not traced a function before."""
    ranks = Ranks(PREPARATION)
    yield ranks
    ranks.end()


@pytest.mark.parametrize("how", ["tf.function", thorough("session")])
@pytest.mark.parametrize("order", [thorough(1), 2])
def test_derivatives_of_one_operator_are_told_apart(fresh: Ranks, how: str, order: int) -> None:
    for by_trace in fresh.run(_derivatives, 2, how, order):
        for by_kind in by_trace:
            for kind, rows in by_kind.items():
                # Each row is the first row times its weight, whatever the first row is. A wrong match mixes the
                # weights.
                for weight, row in zip(_WEIGHTS, rows, strict=True):
                    assert row == pytest.approx([weight * element for element in rows[0]]), kind
            assert by_kind["allreduce"][0] == [2.0 if order == 1 else 6.0 * 2.0 * 4.0] * 4


def _in_a_branch(value: Any) -> Any:
    double = tf.constant(False)
    return tf.cond(double, lambda: hp.allreduce(2 * value, op=hp.Sum), lambda: hp.allreduce(value, op=hp.Sum))


def _in_iterations(value: Any) -> Any:
    body = lambda number, value: (number + 1, hp.allreduce(value, op=hp.Sum))  # noqa: E731
    return tf.while_loop(lambda number, _: number < 3, body, (0, value))[1]


def _derivatives_by_tape(inside: str) -> list[list[float]]:
    """The derivatives of weight · f(x) with respect to x, from one tape; TensorFlow makes functions for the
    derivatives."""
    hp.init()

    def derivatives() -> list[Any]:
        inner = {"branch": _in_a_branch, "loop": _in_iterations}.get(inside)
        if inner is None:
            inner = tf.function(lambda value: hp.allreduce(value, op=hp.Sum), autograph=False)

        @tf.function(autograph=False)
        def step(value: Any) -> list[Any]:
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(value)
                values = [1.0 * value for _ in _WEIGHTS]
                tape.watch(values)
                once = inner(value)
                if inside == "called often":
                    total = tf.add_n([weight * inner(each) for weight, each in zip(_WEIGHTS, values, strict=True)])
                totals = [weight * once for weight in _WEIGHTS]
            if inside == "called often":
                return tape.gradient(total, values)  # type: ignore[no-any-return]
            return [tape.gradient(each, value) for each in totals]

        return step(tf.constant(1.0))  # type: ignore[no-any-return]

    return [[float(value) for value in derivatives()] for _ in range(_TRACES)]


@pytest.mark.parametrize(
    ("inside", "first"), [("branch", 2.0), ("loop", 8.0), ("called once", 2.0), ("called often", 2.0)]
)
def test_derivatives_of_functions_are_told_apart(inside: str, first: float) -> None:
    for by_trace in run(_derivatives_by_tape, 2, inside):
        for found in by_trace:
            assert found == [first * weight for weight in _WEIGHTS]


def _sums_in_a_loop(how: str, nested: bool) -> list[list[float]]:
    """Sums of (iteration, rank + 1) over the ranks. The iterations do not depend on each other, so they run at once."""
    hp.init()

    def iterations(count: int, first: Any) -> Any:
        def body(number: Any, results: Any) -> Any:
            value = tf.cast(first + number, tf.float32)
            summed = hp.allreduce(tf.stack([value, hp.rank() + 1.0]), op=hp.Sum)
            return number + 1, results.write(number, summed[0])

        results = tf.TensorArray(tf.float32, count, element_shape=[])
        return tf.while_loop(lambda number, _: number < count, body, (0, results), parallel_iterations=10)[1].stack()

    def build() -> Any:
        if not nested:
            return iterations(12, 0)
        rows = tf.TensorArray(tf.float32, 4, element_shape=[5])

        def body(number: Any, rows: Any) -> Any:
            return number + 1, rows.write(number, iterations(5, 10 * number))

        return tf.while_loop(lambda number, _: number < 4, body, (0, rows), parallel_iterations=10)[1].stack()

    return [np.reshape(_evaluated(how, build), -1).tolist() for _ in range(_TRACES)]


@pytest.mark.parametrize("how", ["tf.function", "session"])
@pytest.mark.parametrize("nested", [False, True], ids=["one loop", "nested loops"])
def test_iterations_that_overlap_are_told_apart(how: str, nested: bool) -> None:
    numbers = [10 * outer + inner for outer in range(4) for inner in range(5)] if nested else range(12)
    for by_trace in run(_sums_in_a_loop, 2, how, nested):
        for found in by_trace:
            assert found == [2.0 * number for number in numbers]


def _mapped(how: str) -> list[list[float]]:
    hp.init()

    def build() -> Any:
        values = tf.range(10.0)
        results = tf.map_fn(lambda each: hp.allreduce(each, op=hp.Sum) ** 2, values, parallel_iterations=10)
        return results, tf.gradients(results, values)[0]

    return [np.concatenate(_evaluated(how, build)).tolist() for _ in range(_TRACES)]


@pytest.mark.parametrize("how", ["tf.function", "session"])
def test_map_fn_and_its_derivative(how: str) -> None:
    for by_trace in run(_mapped, 2, how):
        for found in by_trace:
            assert found == [(2.0 * n) ** 2 for n in range(10)] + [8.0 * n for n in range(10)]


def _traces_of_its_own() -> list[float]:
    hp.init()

    @tf.function
    def first(value: Any, factor: int) -> Any:
        return hp.allreduce(value * factor, op=hp.Sum)

    @tf.function
    def second(value: Any) -> Any:
        return hp.allgather(value) + hp.allreduce(value, op=hp.Sum)

    one = tf.ones(2)
    functions = [lambda: first.get_concrete_function(one, 1), lambda: second.get_concrete_function(one)]
    for trace in functions if hp.rank() == 0 else reversed(functions):
        trace()
    found = []
    for step in range(3):
        if hp.rank() == 1:
            first.get_concrete_function(one, 7 + step)  # only this rank traces again
        found += [float(hp.allreduce(1.0, op=hp.Sum)), float(first(one, 1)[0]), float(second(tf.ones(1))[0])]
    return found


def test_ranks_may_trace_at_other_times_and_more_often() -> None:
    assert run(_traces_of_its_own, 2) == [[2.0, 2.0, 3.0] * 3] * 2


def _branches(name: str | None) -> list[list[float]]:
    hp.init()

    @tf.function
    def step(condition: Any) -> Any:
        ten = tf.cond(
            condition,
            lambda: hp.allreduce(10.0, op=hp.Sum, name=name),
            lambda: hp.allreduce(30.0, op=hp.Sum, name=name),
        )
        one = tf.cond(
            condition,
            lambda: hp.allreduce(1.0, op=hp.Sum, name=name),
            lambda: hp.allreduce(3.0, op=hp.Sum, name=name),
        )
        return ten, one

    return [[float(value) for value in step(tf.constant(hp.rank() == rank))] for rank in (0, 1, 2)]


@pytest.mark.parametrize("name", [None, "x"])
def test_ranks_may_take_different_branches(name: str | None) -> None:
    assert run(_branches, 2, name) == [[[40.0, 4.0], [40.0, 4.0], [60.0, 6.0]]] * 2


def _names_given_twice() -> list[list[float]]:
    hp.init()

    def build() -> Any:
        return [hp.allreduce(value, op=hp.Sum, name="x") for value in (1.0, 10.0, 100.0, 1000.0)]

    return [list(map(float, _evaluated("session", build))) for _ in range(_TRACES)]


def test_operators_of_a_graph_may_share_a_name() -> None:
    assert run(_names_given_twice, 2) == [[[2.0, 20.0, 200.0, 2000.0]] * _TRACES] * 2


def _in_threads(names: list[str | None]) -> list[Any]:
    hp.init()
    found: list[Any] = [None] * len(names)

    def work(index: int) -> None:
        try:
            found[index] = float(hp.allreduce(10.0**index, op=hp.Sum, name=names[index]))
        except hp.HipressError as error:
            found[index] = str(error)

    # The threads of rank 1 begin in the opposite order.
    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(names))]
    for thread in threads if hp.rank() == 0 else reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_threads_give_names() -> None:
    assert run(_in_threads, 2, ["a", "b", "c"]) == [[2.0, 20.0, 200.0]] * 2


def test_what_threads_do_without_names_is_refused() -> None:
    for found in run(_in_threads, 2, [None, "b", None]):
        assert found[1] == 20.0
        assert sum("without a name in thread" in str(result) for result in found) == 1


def _two_of_one_name() -> list[str]:
    hp.init(timeout=6)
    if hp.rank() == 1:
        return []
    found: list[str] = []

    def work() -> None:
        try:
            hp.allreduce(1.0, name="x")
        except hp.HipressError as error:
            found.append(type(error).__name__)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_two_of_one_name_at_once_are_refused() -> None:
    found = run(_two_of_one_name, 2)[0]
    assert len(found) == 2
    assert found[0].endswith("DuplicateName")  # the other call waits for rank 1


def _in_py_function(name: str | None) -> str:
    hp.init()
    hp.allreduce(1.0)  # this is now the thread of operations without names

    @tf.function
    def step() -> Any:
        return tf.py_function(lambda: hp.allreduce(1.0, op=hp.Sum, name=name), [], tf.float32)

    told: list[str] = []

    def elsewhere() -> None:
        try:
            told.append(str(float(step())))
        except tf.errors.InvalidArgumentError as error:
            told.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    return told[0]


def test_py_functions_give_names() -> None:
    assert run(_in_py_function, 2, "x") == ["2.0"] * 2
    for told in run(_in_py_function, 2, None):
        assert "without a name in thread" in told


def _saved_and_loaded(folder: str) -> list[float]:
    hp.init()
    path = f"{folder}/{hp.rank()}"
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def step(value: Any) -> Any:
        return hp.allreduce(value, op=hp.Sum), hp.allreduce(10.0 * value, op=hp.Sum)

    module.step = step
    tf.saved_model.save(module, path)
    hp.allreduce(1.0)
    loaded = tf.saved_model.load(path)
    return [float(value) for value in (*loaded.step(1.0), *step(3.0), hp.allreduce(1.0, op=hp.Sum))]


def test_a_saved_function_goes_on_after_loading(tmp_path: Any) -> None:
    assert run(_saved_and_loaded, 2, str(tmp_path)) == [[2.0, 20.0, 6.0, 60.0, 2.0]] * 2


def _residuals_in_a_loop() -> float:
    """The largest error of the mean of a constant gradient after 50 iterations, relative to the gradient. It is small
    if iterations pass on the residual."""
    hp.init()
    gradient = tf.constant(np.random.default_rng(1).standard_normal(4096), tf.float32)

    @tf.function
    def total() -> Any:
        def body(number: Any, total: Any) -> Any:
            return number + 1, total + hp.allreduce(gradient, name="g", codec="graddrop(ratio=0.1)")

        return tf.while_loop(lambda number, _: number < 50, body, (0, tf.zeros(4096)))[1]

    return float(tf.reduce_max(tf.abs(total() / 50 - gradient)) / tf.reduce_max(tf.abs(gradient)))


def test_codecs_remember_from_one_iteration_to_the_next() -> None:
    assert max(run(_residuals_in_a_loop, 2)) < 0.3
