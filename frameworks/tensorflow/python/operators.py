# SPDX-License-Identifier: Apache-2.0
"""The C++ operators behind the adapter: eagerly, in tf.function and in graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.framework.auto_control_deps_utils import register_read_only_resource_op

from hipress._library import load_core
from hipress.errors import Unsupported
from hipress.tensorflow import failures, graph_names
from hipress.tensorflow.failures import own_errors
from hipress.tensorflow.library import load_operators

_operators, _lists = load_operators()
for _function in (
    _lists.hipress_define_tensor_list,
    _lists.hipress_hold_back,
    _lists.hipress_copy_held_back,
    _lists.hipress_unfinished,
    _lists.hipress_count_updates,
):
    _function.restype = ctypes.c_bool
_lists.hipress_steps.restype = ctypes.c_int64
_lists.hipress_forget_held_back.restype = None
# No update of a variable has to wait for it. (HipressUpdated waits for all of them, so that it is not read-only.)
register_read_only_resource_op("HipressObserve")
failures.tell_what_is_raised(lambda what: _lists.hipress_note_raised(what.encode()))

#: operators/operator_names.h
_SAME_IN_EVERY_ITERATION = -1
_Names = Sequence[str]
_Tensors = Sequence[Any]
#: Element types of values that ranks combine.
COMBINED = frozenset(
    {
        tf.float32,
        tf.float64,
        tf.float16,
        tf.bfloat16,
        tf.uint8,
        tf.int8,
        tf.int16,
        tf.int32,
        tf.int64,
        tf.bool,
    }
)
#: Element types of values that go from rank to rank as they are.
MOVED = COMBINED | {tf.uint16, tf.uint32, tf.uint64}


def check_dtype(dtype: tf.DType, name: str, dtypes: frozenset[tf.DType] = COMBINED) -> None:
    """Raises Unsupported for element types that are not of `dtypes`."""
    if dtype not in dtypes:
        known = ", ".join(sorted(known.name for known in dtypes))
        what = "combines" if dtypes is COMBINED else "sends"
        raise Unsupported(f"tensor '{name}' has elements of type {dtype.name}; HiPress {what} {known}")


def synchronize(
    values: Sequence[tf.Tensor], number: int, indices: Sequence[int], *, step_count: int
) -> list[tf.Tensor]:
    """The tensors at `indices` of the list `number`, combined over all ranks; of `step_count` in the same step."""
    with tf.device("CPU:0"), own_errors():
        outputs = _operators.hipress_synchronize(
            list(values), list_number=number, indices=list(indices), step_count=step_count
        )
    return _independent(outputs)


def observe(variables: Sequence[Any], number: int, indices: Sequence[int]) -> Any:
    """Notes which of these resource variables, at `indices` of the list `number`, have changed; the operator."""
    with tf.device("CPU:0"), own_errors():
        return _operators.hipress_observe(
            [each.handle for each in variables], list_number=number, indices=list(indices)
        )


def count_updates(number: int) -> None:
    """Updates of the variables of the list `number` are told by updated() from here on, and not observed."""
    _checked(_lists.hipress_count_updates(ctypes.c_int64(number)))


def updated(variables: Sequence[Any], number: int, indices: Sequence[int]) -> None:
    """An optimizer has updated the variables at `indices`. In a tf.function it runs after these resources' writes."""
    with tf.device("CPU:0"), own_errors():
        handles = [each.handle for each in variables]
        _operators.hipress_updated(handles, list_number=number, indices=list(indices))


def forget_values() -> None:
    """All variables have new values, equal on all ranks, which are no update of an optimizer's."""
    _lists.hipress_forget_values()


def unfinished(number: int) -> str | None:
    """See hipress.adapter.unfinished.Step, for the list `number`."""
    text = ctypes.create_string_buffer(2048)
    if not _lists.hipress_unfinished(ctypes.c_int64(number), text, ctypes.c_size_t(len(text))):
        return None
    return text.value.decode(errors="replace")


def steps(number: int) -> int:
    """How many steps of the list `number` have had all of their gradients."""
    return int(_lists.hipress_steps(ctypes.c_int64(number)))


def reduced(kind: str, names: _Names, tensors: _Tensors, factors: tuple[float, float], **options: Any) -> list[Any]:
    """An "allreduce" or "reducescatter" of each tensor, which ranks match by name. `factors`: before and after."""
    operator = _operators.hipress_allreduce if kind == "allreduce" else _operators.hipress_reducescatter
    options["loops"] = _loops(options.get("codec", "none"))
    with tf.device("CPU:0"), own_errors():
        outputs = operator(list(names), tf.constant(factors, tf.float64), list(tensors), **options)
    return _independent(outputs)


def broadcast(names: _Names, tensors: _Tensors, root_rank: int) -> list[Any]:
    """Each tensor as rank `root_rank` has it."""
    with tf.device("CPU:0"), own_errors():
        outputs = _operators.hipress_broadcast(list(names), list(tensors), root_rank=root_rank, loops=_loops())
    return _independent(outputs)


def allgather(names: _Names, tensors: _Tensors) -> tuple[list[Any], list[Any]]:
    """The rows of all ranks, and for each tensor how many came from each rank."""
    with tf.device("CPU:0"), own_errors():
        gathered, rows = _operators.hipress_allgather(list(names), list(tensors), N=len(names), loops=_loops())
    return _independent(gathered), rows


def alltoall(names: _Names, splits: Any, tensors: _Tensors) -> tuple[list[Any], list[Any]]:
    """The rows that all ranks have for this one, and for each tensor how many came from each rank."""
    with tf.device("CPU:0"), own_errors():
        received, rows = _operators.hipress_alltoall(list(names), splits, list(tensors), N=len(names), loops=_loops())
    return _independent(received), rows


def encode(gradient: Any, states: _Tensors, step: Any, **options: Any) -> tuple[Any, list[Any]]:
    """The message, and the states as they are after it."""
    with tf.device("CPU:0"), own_errors():
        message, after = _operators.hipress_encode(gradient, list(states), step, **options)
    return message, after


def decode(payload: Any, count: Any, codec: str, options: str) -> Any:
    with tf.device("CPU:0"), own_errors():
        return _operators.hipress_decode(payload, count, codec=codec, options=options)


def decode_accumulate(payload: Any, values: Any, codec: str, options: str) -> Any:
    with tf.device("CPU:0"), own_errors():
        return _operators.hipress_decode_accumulate(payload, values, codec=codec, options=options)


def _loops(codec: str = "none") -> int:
    """An operator's attribute `loops`, by which its kernel tells iterations apart."""
    if tf.executing_eagerly():
        return 0
    # What a codec remembers it remembers by name: it goes on from one iteration of a loop to the next.
    remembers = codec != "none" and load_core().create_codec(codec).states
    return _SAME_IN_EVERY_ITERATION if remembers else graph_names.loops()


def define_list(number: int, handles: Sequence[int]) -> None:
    """The list `number` of this process has these handles from now on, also in graphs that exist."""
    values = (ctypes.c_uint32 * len(handles))(*handles)
    _checked(_lists.hipress_define_tensor_list(ctypes.c_int64(number), values, ctypes.c_size_t(len(handles))))


def forget_list(number: int) -> None:
    """No graph that uses the list `number` will run any more."""
    _lists.hipress_forget_tensor_list(ctypes.c_int64(number))


def hold_back(number: int, index: int, values: NDArray[np.float32]) -> None:
    """`values` join the next values of the tensor at `index` of the list `number`."""
    values = np.ascontiguousarray(values, np.float32)
    data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    size = ctypes.c_size_t(values.size)
    _checked(_lists.hipress_hold_back(ctypes.c_int64(number), ctypes.c_size_t(index), data, size))


def held_back(number: int, index: int, count: int) -> NDArray[np.float32] | None:
    """A copy of the values, `count` elements, that join the next values of the tensor; None: there are none."""
    values = np.zeros(count, np.float32)
    data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    waits = _lists.hipress_copy_held_back(ctypes.c_int64(number), ctypes.c_size_t(index), data, ctypes.c_size_t(count))
    return values if waits else None


def forget_held_back(number: int, index: int) -> None:
    """No values wait for the next values of the tensor."""
    _lists.hipress_forget_held_back(ctypes.c_int64(number), ctypes.c_size_t(index))


def _checked(well: bool) -> None:
    if not well:
        load_core().raise_kept_error()


def _independent(outputs: list[tf.Tensor]) -> list[tf.Tensor]:
    """In a tf.function: operators with side effects run one after the other, unless they say that they need not."""
    if not tf.executing_eagerly():
        graph, operator = outputs[0].graph, outputs[0].op
        manager = getattr(graph, "experimental_acd_manager", None)
        if manager is not None:
            manager.run_independently(operator)
        graph_names.end_with_effects(graph)
    return outputs
