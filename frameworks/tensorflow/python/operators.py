# SPDX-License-Identifier: Apache-2.0
"""The C++ operators behind the adapter: eager, in tf.function and in graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.framework.auto_control_deps_utils import register_read_only_resource_op

from hipress._library import load_core
from hipress.adapter.complex_values import REAL_TYPES
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.errors import Unsupported
from hipress.gpus import gpu
from hipress.tensorflow import failures, graph_names, places
from hipress.tensorflow.failures import own_errors
from hipress.tensorflow.library import load_operators

_operators, _lists = load_operators()
load_core().set_device_maker(gpu)
# HipressObserve only reads variables, so their updates need not wait for it. HipressUpdated is not read-only: it must
# wait for all updates.
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
        tf.complex64,
        tf.complex128,
    }
)
#: Element types of values that ranks send unchanged.
MOVED = COMBINED | {tf.uint16, tf.uint32, tf.uint64}


def check_dtype(dtype: tf.DType, name: str, dtypes: frozenset[tf.DType] = COMBINED) -> None:
    """Raises Unsupported for an element type that is not among `dtypes`."""
    if dtype not in dtypes:
        known = ", ".join(sorted(known.name for known in dtypes))
        what = "combines" if dtypes is COMBINED else "sends"
        raise Unsupported(f"tensor '{name}' has elements of type {dtype.name}; HiPress {what} {known}")


def core_type(dtype: tf.DType) -> tuple[str, int, str]:
    """The core's type of such elements, its number of elements for each, and the text that distinguishes them."""
    real = REAL_TYPES.get(dtype.name)
    return (dtype.name, 1, "") if real is None else (real, 2, f" of {dtype.name}")


def synchronize(
    values: Sequence[tf.Tensor], number: int, indices: Sequence[int], *, step_count: int, device: str, scale: Any
) -> list[tf.Tensor]:
    """Combines `values`, the tensors at `indices` of the list `number`, over all ranks. `step_count`: number of tensors
    in this step. `device`: TensorFlow's device for which these tensors were declared. `scale`: the loss scale.
    """
    with tf.device(places.CPU):
        factor = tf.cast(scale, tf.float32)
    with tf.device(device), own_errors():
        outputs = _operators.hipress_synchronize(
            factor, list(values), list_number=number, indices=list(indices), step_count=step_count
        )
    return _independent(outputs)


def observe(variables: Sequence[Any], number: int, indices: Sequence[int]) -> Any:
    """The operator that notes which of these resource variables, at `indices` of the list `number`, have changed."""
    with tf.device(places.CPU), own_errors():
        return _operators.hipress_observe(
            [each.handle for each in variables], list_number=number, indices=list(indices)
        )


def count_updates(number: int) -> None:
    """From now on updated() reports the updates of the list's variables, and observe() is not used."""
    _checked(_lists.hipress_count_updates(ctypes.c_int64(number)))


def updated(variables: Sequence[Any], number: int, indices: Sequence[int], device: str) -> None:
    """Reports that an optimizer has updated the variables at `indices`, which are on `device`. In a tf.function it runs
    after their writes.
    """
    with tf.device(device), own_errors():
        handles = [each.handle for each in variables]
        _operators.hipress_updated(handles, list_number=number, indices=list(indices))


def set_scale(number: int, scale: float) -> None:
    """Says that the next values of the list are gradients times `scale`."""
    _checked(_lists.hipress_set_scale(ctypes.c_int64(number), ctypes.c_float(scale)))


def states_replaced(number: int) -> None:
    """Notes that all kept values of the list have been replaced by values in the unit of the gradient."""
    _checked(_lists.hipress_states_replaced(ctypes.c_int64(number)))


def forget_values() -> None:
    """Tells the operators that all variables have new values, equal on all ranks, without an optimizer's update."""
    _lists.hipress_forget_values()


def unfinished(number: int) -> str | None:
    """See hipress.adapter.unfinished.Step, for the list `number`."""
    text = ctypes.create_string_buffer(2048)
    _checked(_lists.hipress_unfinished(ctypes.c_int64(number), text, ctypes.c_size_t(len(text))))
    return text.value.decode(errors="replace") or None


def steps(number: int) -> int:
    """Number of steps in which all gradients of the list `number` were handed over."""
    taken = ctypes.c_int64()
    _checked(_lists.hipress_steps(ctypes.c_int64(number), ctypes.byref(taken)))
    return taken.value


def progress(number: int, tensors: int) -> list[int]:
    """The number of steps of the list `number`, and of the updates of each of its variables."""
    values = (ctypes.c_int64 * (tensors + 1))()
    _checked(_lists.hipress_progress(ctypes.c_int64(number), values, ctypes.c_size_t(len(values))))
    return list(values)


def continue_from(number: int, values: Sequence[int]) -> None:
    """Lets the list `number` go on from the progress() of another rank."""
    given = (ctypes.c_int64 * len(values))(*values)
    _checked(_lists.hipress_continue_from(ctypes.c_int64(number), given, ctypes.c_size_t(len(given))))


def reduced(
    kind: str,
    names: _Names,
    tensors: _Tensors,
    factors: tuple[float, float],
    process_set: ProcessSet,
    *,
    device: str = "",
    **options: Any,
) -> list[Any]:
    """An "allreduce" or "reducescatter" of each tensor; ranks match tensors by name. `factors`: prescale, postscale.
    `device`: see places.at().
    """
    operator = _operators.hipress_allreduce if kind == "allreduce" else _operators.hipress_reducescatter
    options.update(loops=_loops(options.get("codec", "none")), among=process_set.among)
    with tf.device(places.CPU):
        given = tf.constant(list(names), tf.string), tf.constant(factors, tf.float64)
    with places.at(tensors, device), own_errors():
        outputs = operator(*given, list(tensors), **options)
    return _independent(outputs)


def broadcast(
    names: _Names, tensors: _Tensors, root_rank: int, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Rank `root_rank`'s values of each tensor."""
    how = {"root_rank": root_rank, "loops": _loops(), "among": process_set.among}
    with tf.device(places.CPU):
        given = tf.constant(list(names), tf.string)
    with places.at(tensors), own_errors():
        outputs = _operators.hipress_broadcast(given, list(tensors), **how)
    return _independent(outputs)


def allgather(names: _Names, tensors: _Tensors, process_set: ProcessSet) -> tuple[list[Any], list[Any]]:
    """The rows of all ranks, and for each tensor the number of rows of each rank."""
    how = {"N": len(names), "loops": _loops(), "among": process_set.among}
    with tf.device(places.CPU), own_errors():
        gathered, rows = _operators.hipress_allgather(list(names), list(tensors), **how)
    return _independent(gathered), rows


def alltoall(names: _Names, splits: Any, tensors: _Tensors, process_set: ProcessSet) -> tuple[list[Any], list[Any]]:
    """The rows that all ranks have sent to this rank, and for each tensor the number of rows of each rank."""
    how = {"N": len(names), "loops": _loops(), "among": process_set.among}
    with tf.device(places.CPU), own_errors():
        received, rows = _operators.hipress_alltoall(list(names), splits, list(tensors), **how)
    return _independent(received), rows


def encode(gradient: Any, states: _Tensors, step: Any, device: str | None, **options: Any) -> tuple[Any, list[Any]]:
    """The message, and the new values of the states. `device`: a GPU; None: the CPU."""
    operator = _operators.hipress_encode if device is None else _operators.hipress_gpu_encode
    with _on(device), own_errors():
        message, after = operator(gradient, list(states), step, **options)
    return message, after


def decode(message: Any, count: Any, device: str | None, codec: str, options: str) -> Any:
    operator = _operators.hipress_decode if device is None else _operators.hipress_gpu_decode
    with _on(device), own_errors():
        return operator(message, count, codec=codec, options=options)


def decode_accumulate(message: Any, values: Any, device: str | None, codec: str, options: str) -> Any:
    operator = _operators.hipress_decode_accumulate if device is None else _operators.hipress_gpu_decode_accumulate
    with _on(device), own_errors():
        return operator(message, values, codec=codec, options=options)


def _on(device: str | None) -> Any:
    """The device of a codec's operator. Raises Unsupported for a GPU that TensorFlow does not have."""
    if device is None:
        return tf.device(places.CPU)
    places.gpu_named(device, "codec operators", "without `device` the operators run on the CPU")
    return tf.device(device)


def _loops(codec: str = "none") -> int:
    """The operator's attribute `loops`, by which its kernel distinguishes iterations."""
    if tf.executing_eagerly():
        return 0
    # A codec finds its states by name: the name must be equal in all iterations, so that states continue.
    remembers = codec != "none" and load_core().create_codec(codec).states
    return _SAME_IN_EVERY_ITERATION if remembers else graph_names.loops()


def define_list(number: int, handles: Sequence[int], *, anew: bool = False) -> None:
    """Sets the handles of the list `number` of this process, also for existing graphs. `anew`: it begins again, with
    the current engine."""
    values = (ctypes.c_uint32 * len(handles))(*handles)
    _checked(_lists.hipress_define_tensor_list(ctypes.c_int64(number), values, ctypes.c_size_t(len(handles)), anew))


#: The type of Python's function in setRestart() of operators/tensor_lists.h.
_Restart = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_RESTART_TEXT = 1024
_kept_restart: Any = None


def set_restart(restart: Callable[[int], bool]) -> None:
    """From now on a graph that uses a list of an earlier engine calls `restart(number)` before it goes on, in another
    thread. It returns whether the list is of the current engine now."""

    def call(number: int, kind: int, text: int) -> int:
        try:
            return int(restart(number))
        except BaseException as error:  # none may pass through C
            for place, value in ((kind, type(error).__name__), (text, str(error))):
                encoded = value.encode(errors="replace")[: _RESTART_TEXT - 1] + b"\0"
                ctypes.memmove(place, encoded, len(encoded))
            return -1

    global _kept_restart
    _kept_restart = _Restart(call)
    _lists.hipress_set_restart(_kept_restart)


def forget_list(number: int) -> None:
    """Drops the list `number`; no graph that uses it may run afterwards."""
    _checked(_lists.hipress_forget_tensor_list(ctypes.c_int64(number)))


def hold_back(number: int, index: int, values: NDArray[np.float32]) -> None:
    """Stores an unsent residual: the operator adds `values` to the next values of the tensor at `index` of the list."""
    values = np.ascontiguousarray(values, np.float32)
    data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    size = ctypes.c_size_t(values.size)
    _checked(_lists.hipress_hold_back(ctypes.c_int64(number), ctypes.c_size_t(index), data, size))


def held_back(number: int, index: int, count: int) -> NDArray[np.float32] | None:
    """A copy of the tensor's unsent residual, `count` elements; None: there is none."""
    values = np.zeros(count, np.float32)
    data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    place, size, found = ctypes.c_size_t(index), ctypes.c_size_t(count), ctypes.c_bool()
    _checked(_lists.hipress_copy_held_back(ctypes.c_int64(number), place, data, size, ctypes.byref(found)))
    return values if found else None


def forget_held_back(number: int, index: int) -> None:
    """Drops the tensor's unsent residual."""
    _checked(_lists.hipress_forget_held_back(ctypes.c_int64(number), ctypes.c_size_t(index)))


def _checked(well: bool) -> None:
    if not well:
        load_core().raise_kept_error()


def _independent(outputs: list[tf.Tensor]) -> list[tf.Tensor]:
    """Removes the order that tf.function gives to operators with side effects, so that these run at the same time."""
    if not tf.executing_eagerly():
        graph, operator = outputs[0].graph, outputs[0].op
        manager = getattr(graph, "experimental_acd_manager", None)
        if manager is not None:
            manager.run_independently(operator)
        graph_names.end_with_effects(graph)
    return outputs
