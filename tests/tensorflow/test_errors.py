# SPDX-License-Identifier: Apache-2.0
"""HiPress's errors are also TensorFlow's errors, so scripts for Horovod catch them."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from hipress import errors
from hipress._library import load_core
from hipress.tensorflow import operators
from tests.tensorflow.ranks import run

_WAYS = ["eager", "tf.function", "session"]


_KINDS = (tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError, NotImplementedError, TypeError)


def _ended_by(how: str, build: Callable[[], Any]) -> list[str]:
    """The TensorFlow or Python types of the error that ends `build`, and the type of the HiPress error that own_error()
    finds in it."""

    def call() -> None:
        if how == "eager":
            build()
        elif how == "tf.function":
            tf.function(build)()  # AutoGraph makes a new error from an error of the first call
        else:
            with tf.Graph().as_default():
                outputs = build()
                with tf.compat.v1.Session() as session:
                    session.run(outputs)

    with pytest.raises((hp.HipressError, tf.errors.OpError)) as raised:
        call()
    own = hp.own_error(raised.value)
    assert own is not None
    assert own is raised.value or how != "eager"
    assert str(own) == str(pickle.loads(pickle.dumps(own)))
    found = [kind.__name__ for kind in _KINDS if isinstance(raised.value, kind)]
    return [
        *found,
        *(name for name in ("Mismatch", "InvalidArgument", "Unsupported") if isinstance(own, getattr(hp, name))),
    ]


def _mismatches(how: str) -> list[list[str]]:
    hp.init()
    rank = hp.rank()
    calls: list[Callable[[], Any]] = [
        lambda: hp.allreduce(tf.ones(3 + rank), name="shape"),
        lambda: hp.allreduce(tf.ones(3, tf.float64 if rank else tf.float32), name="type"),
        lambda: hp.grouped_allreduce([tf.ones(3), tf.ones(3 + rank)], name="group"),
        lambda: hp.allgather(tf.ones((2, 3 + rank)), name="row"),
        lambda: hp.allgather(tf.ones(2, tf.uint16 if rank else tf.int16), name="sign"),
        lambda: hp.broadcast(tf.ones(3), rank, name="root"),
        lambda: hp.alltoall(tf.ones((2, 3 + rank)), name="rows"),
        lambda: hp.reducescatter(tf.ones((2, 3 + rank)), name="scattered"),
    ]
    found = []
    for call in calls:
        found.append(_ended_by(how, call))
        hp.barrier()
    return found


@pytest.mark.parametrize("how", _WAYS)
def test_mismatches_are_failed_preconditions(how: str) -> None:
    for found in run(_mismatches, 2, how):
        assert found == [["FailedPreconditionError", "Mismatch"]] * 8


def _wrong_arguments(how: str) -> list[list[str]]:
    hp.init()
    calls: list[Callable[[], Any]] = [
        lambda: hp.alltoall(tf.ones(3), splits=[1, 1], name="a"),
        lambda: hp.alltoall(tf.ones(3), splits=[4, -1], name="b"),
        lambda: hp.alltoall(tf.ones(3), splits=[1.5, 1.5], name="c"),
        lambda: hp.alltoall(tf.ones(3), name="d"),
        lambda: hp.broadcast(tf.ones(3), hp.size(), name="e"),
        lambda: hp.allgather(tf.ones(()), name="f"),
        lambda: hp.reducescatter(tf.ones(()), name="g"),
        lambda: hp.allreduce(tf.ones(3), name="h", codec="no such codec"),
        lambda: hp.allreduce(tf.ones(3), name="i", op="sum"),
    ]
    return [_ended_by(how, call) for call in calls]


@pytest.mark.parametrize("how", _WAYS)
def test_wrong_arguments_are_invalid_arguments(how: str) -> None:
    for found in run(_wrong_arguments, 2, how):
        assert found == [["InvalidArgumentError", "InvalidArgument"]] * 9


def _slices(dtype: Any) -> Any:
    return tf.IndexedSlices(
        tf.constant([[1], [2 + hp.rank()]], dtype), tf.constant([0, hp.rank()]), tf.constant([3, 1])
    )


def _unsupported(how: str) -> list[list[str]]:
    hp.init()
    calls: list[Callable[[], Any]] = [
        lambda: hp.allreduce(_slices(tf.float32), op=hp.Min),
        lambda: hp.grouped_allreduce([_slices(tf.float32)], op=hp.Product),
        lambda: hp.allreduce(_slices(tf.float32), op=hp.Adasum),
        lambda: hp.allreduce(tf.ones(3, tf.uint16), name="uint16"),
        lambda: hp.allgather(tf.constant(["text"]), name="text"),
    ]
    return [_ended_by(how, call) for call in calls]


@pytest.mark.parametrize("how", _WAYS)
def test_what_there_is_not_is_not_implemented(how: str) -> None:
    for found in run(_unsupported, 1, how):
        assert found == [["NotImplementedError", "TypeError", "Unsupported"]] * 5


def _averages_of_slices(dtype: str) -> tuple[str, list[float], str, list[float]]:
    hp.init()
    average, total = (hp.allreduce(_slices(tf.as_dtype(dtype)), op=op) for op in (hp.Average, hp.Sum))
    dense = [float(value) for value in tf.convert_to_tensor(average)[:, 0]]
    return average.dtype.name, dense, total.dtype.name, [float(value) for value in tf.convert_to_tensor(total)[:, 0]]


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("int32", "float64"), ("int64", "float64"), ("uint8", "float32"), ("float16", "float16"), ("float32", "float32")],
)
def test_averages_of_sparse_whole_numbers_are_no_zeros(dtype: str, result: str) -> None:
    # Rank 0 has 1 and 2 in row 0. Rank 1 has 1 in row 0 and 3 in row 1.
    assert run(_averages_of_slices, 2, dtype) == [(result, [2.0, 1.5, 0.0], dtype, [4.0, 3.0, 0.0])] * 2


#: The element types of Horovod 0.28.1's operators (its tensorflow/mpi_ops.cc), and the types that HiPress adds.
_COMBINED = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"]
_MOVED = [*_COMBINED, "uint16", "uint32", "uint64"]


def _every_type() -> list[str]:
    hp.init()
    wrong = []

    def compare(what: str, found: Any, expected: list[int], dtype: str) -> None:
        same = found.dtype.name == dtype and np.array_equal(
            tf.cast(found, tf.float64), tf.cast(tf.cast(expected, dtype), tf.float64)
        )
        if not same:
            wrong.append(f"{what} of {dtype}: {found}")

    for dtype in _MOVED:
        top = 1 if dtype == "bool" else tf.as_dtype(dtype).max if dtype in ("uint16", "uint8") else 100
        mine = tf.cast([hp.rank(), top], dtype)
        compare("allgather", hp.allgather(mine, name=dtype), [0, top, 1, top], dtype)
        compare("grouped_allgather", hp.grouped_allgather([mine], name=dtype)[0], [0, top, 1, top], dtype)
        compare("broadcast", hp.broadcast(mine, 1, name=dtype), [1, top], dtype)
        compare("alltoall", hp.alltoall(mine, name=dtype), [0, 1] if hp.rank() == 0 else [top, top], dtype)
        variable = tf.Variable(mine)
        hp.broadcast_([variable], 1, name=dtype)
        compare("broadcast_", variable.read_value(), [1, top], dtype)
    for dtype in _COMBINED:
        mine = tf.cast([hp.rank(), 1], dtype)
        expected = [1, 1 if dtype == "bool" else 2]
        compare("allreduce", hp.allreduce(mine, op=hp.Sum, name=dtype), expected, dtype)
        compare("grouped_allreduce", hp.grouped_allreduce([mine], op=hp.Sum, name=dtype)[0], expected, dtype)
        rows = [expected[hp.rank()]]
        compare("reducescatter", hp.reducescatter(mine, op=hp.Sum, name=dtype), rows, dtype)
        compare("grouped_reducescatter", hp.grouped_reducescatter([mine], op=hp.Sum, name=dtype)[0], rows, dtype)
    return wrong


def test_every_element_type_that_horovod_takes() -> None:
    assert run(_every_type, 2) == [[], []]


def _unknown_variable() -> None:
    hp.init()
    hp.broadcast_variables([tf.Variable(1.0, name="a"), tf.Variable("text", name="b")], 0)


def test_a_variable_that_cannot_be_sent_is_not_left_out() -> None:
    with pytest.raises(hp.Unsupported, match=r"variables\.b.*string"):
        run(_unknown_variable, 1)


def _derivative_of_broadcast(how: str) -> list[float]:
    hp.init()

    def build() -> Any:
        value = tf.constant([1.0, 2.0])
        return tf.gradients(hp.broadcast(value, 0) * (1.0 + hp.rank()), value)[0]

    if how == "tf.function":
        return [float(value) for value in tf.function(build)()]
    with tf.Graph().as_default():
        gradient = build()
        with tf.compat.v1.Session() as session:
            return [float(value) for value in session.run(gradient)]


@pytest.mark.parametrize("how", ["tf.function", "session"])
def test_ranks_whose_derivative_is_zero_take_part(how: str) -> None:
    assert run(_derivative_of_broadcast, 2, how) == [[1.5, 1.5], [0.0, 0.0]]


def _no_list() -> None:
    hp.init()
    for call in (
        lambda: operators.held_back(1 << 40, 0, 4),
        lambda: operators.forget_held_back(1 << 40, 0),
        lambda: operators.unfinished(1 << 40),
        lambda: operators.steps(1 << 40),
    ):
        with pytest.raises(errors.InvalidArgument, match="there is no list of tensors"):
            call()
    too_long = ctypes.c_size_t(1 << 61)  # for a std::vector: not an error of HiPress' own
    assert not operators._lists.hipress_define_tensor_list(ctypes.c_int64(1 << 40), None, too_long)
    with pytest.raises(errors.Unsupported, match="cannot go on"):
        load_core().raise_kept_error()


def test_errors_of_calls_into_c_reach_python_whatever_their_class() -> None:
    run(_no_list, 1)
