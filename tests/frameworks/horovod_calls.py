# SPDX-License-Identifier: Apache-2.0
"""Checks of Horovod's public names on two ranks, for the rows of docs/horovod_names.json.

`SAME[name](call)` fails unless the name does what Horovod's documentation says. `DIFFERS[name](call)` fails unless the
name shows the difference that the row explains. The names of one framework only are in horovod_<framework>.py.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipress.errors import HipressError, InvalidArgument, Unsupported
from tests.frameworks.adapters.adapter import Adapter, Array


@dataclass(frozen=True)
class Call:
    """The call of a name in a world of two ranks."""

    hvd: Any
    adapter: Adapter
    function: str

    @property
    def rank(self) -> int:
        return int(self.hvd.rank())

    def tensor(self, *values: float, dtype: str = "float32") -> Any:
        return self.adapter.tensor(np.array(values, dtype))

    def rows(self, count: int, value: float) -> Any:
        return self.adapter.tensor(np.full((count, 2), value, np.float32))

    def values(self, tensor: Any) -> Array:
        return tensor if isinstance(tensor, np.ndarray) else self.adapter.numpy(tensor)

    def result(self, *arguments: Any, **options: Any) -> Any:
        """Calls the function and returns its result; waits with synchronize() for the result of an asynchronous
        function."""
        result = getattr(self.hvd, self.function)(*arguments, **options)
        return self.hvd.synchronize(result) if self.function.rstrip("_").endswith("_async") else result


Check = Callable[[Call], None]


def _is(call: Call, tensor: Any, *expected: Any) -> None:
    assert np.array_equal(call.values(tensor), np.array(expected)), call.values(tensor)


def allreduce(call: Call) -> None:
    """The default is the average; factors apply before and after the sum; a name that ends with _ works in place."""
    given = call.tensor(1.0 + call.rank, 3.0)
    result = call.result(given, name="a")
    _is(call, result, 1.5, 3.0)
    _is(call, given, *([1.5, 3.0] if call.function.endswith("_") else [1.0 + call.rank, 3.0]))
    factors = {"prescale_factor": 0.5, "postscale_factor": 3.0}
    _is(call, call.result(call.tensor(2.0 * (call.rank + 1)), op=call.hvd.Sum, **factors), 9.0)
    _is(call, call.result(call.tensor(1.0 + call.rank), average=False), 3.0)
    _is(call, call.result(call.tensor(3, dtype="int32"), op=call.hvd.Sum, prescale_factor=0.5), 2)


def grouped_allreduce(call: Call) -> None:
    group = [call.tensor(1.0 + call.rank), call.tensor(5.0, call.rank)]
    first, second = call.result(group, name="g", op=call.hvd.Sum)
    _is(call, first, 3.0)
    _is(call, second, 10.0, 1.0)
    _is(call, group[0], 3.0 if call.function.rstrip("_") != call.function else 1.0 + call.rank)


def allgather(call: Call) -> None:
    _is(call, call.result(call.rows(call.rank + 1, call.rank), name="r"), [0, 0], [1, 1], [1, 1])


def grouped_allgather(call: Call) -> None:
    first, second = call.result([call.rows(call.rank + 1, call.rank), call.tensor(call.rank)])
    _is(call, first, [0, 0], [1, 1], [1, 1])
    _is(call, second, 0, 1)


def broadcast(call: Call) -> None:
    given = call.tensor(call.rank, 7.0)
    _is(call, call.result(given, 1, name="b"), 1.0, 7.0)
    _is(call, given, 1.0 if call.function.endswith("_") else call.rank, 7.0)


def alltoall(call: Call) -> None:
    splits = call.tensor(1, 2 - call.rank, dtype="int32")
    result, received = call.result(call.rows(3 - call.rank, call.rank), splits=splits)
    _is(call, result, *([[0, 0], [1, 1]] if call.rank == 0 else [[0, 0], [0, 0], [1, 1]]))
    _is(call, received, *([1, 1] if call.rank == 0 else [2, 1]))


def reducescatter(call: Call) -> None:
    result = call.result(call.rows(3, call.rank + 1), op=call.hvd.Sum)
    _is(call, result, *[[3, 3]] * (2 - call.rank))
    _is(call, call.result(call.rows(2, call.rank + 1)), [1.5, 1.5])


def grouped_reducescatter(call: Call) -> None:
    first, second = call.result([call.rows(3, call.rank + 1), call.rows(2, 1)], op=call.hvd.Sum)
    _is(call, first, *[[3, 3]] * (2 - call.rank))
    _is(call, second, [2, 2])


def operation(name: str, expected: float) -> Check:
    def check(call: Call) -> None:
        function = call.hvd.allreduce
        _is(call, function(call.tensor(2.0 + call.rank), name=name, op=getattr(call.hvd, name)), expected)

    return check


def compression(call: Call) -> None:
    half, context = call.hvd.Compression.fp16.compress(call.tensor(1.0, 1e-9))
    assert call.values(half).dtype == np.float16
    back = call.values(call.hvd.Compression.fp16.decompress(half, context))
    assert back.tolist() == [1.0, 0.0]
    assert back.dtype == np.float32
    same = call.tensor(1.0)
    assert call.hvd.Compression.none.compress(same)[0] is same
    _is(call, call.hvd.allreduce(call.tensor(1.0, 1e-9), compression=call.hvd.Compression.fp16), 1.0, 0.0)


def number(expected: Callable[[int], int]) -> Check:
    def check(call: Call) -> None:
        result = getattr(call.hvd, call.function)()
        assert type(result) is int
        assert result == expected(call.rank)

    return check


def answers(expected: Any) -> Check:
    def check(call: Call) -> None:
        result = getattr(call.hvd, call.function)()
        assert result == expected
        assert type(result) is type(expected)

    return check


def cuda_built(call: Call) -> None:
    from hipress.compll.build.nvrtc import find_nvrtc

    try:
        built = find_nvrtc() is not None
    except Unsupported:
        built = False
    assert call.hvd.cuda_built() is built


def timeline(call: Call) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "timeline.json"
        call.hvd.start_timeline(str(file), mark_cycles=True)
        call.hvd.allreduce(call.tensor(1.0), name="recorded")
        _wait(call)
        call.hvd.stop_timeline()
        assert any(event["ph"] == "X" for event in json.loads(file.read_text()))


def _wait(call: Call) -> None:
    """Waits for an operation; MXNet's operations are asynchronous."""
    call.values(call.hvd.allreduce(call.tensor(1.0)))


def shutdown(call: Call) -> None:
    _wait(call)
    call.hvd.shutdown()
    assert not call.hvd.is_initialized()
    call.hvd.shutdown()  # a second shutdown() does nothing


def global_process_set(call: Call) -> None:
    everybody = call.hvd.global_process_set
    assert (everybody.size(), everybody.rank(), everybody.included()) == (2, call.rank, True)
    assert (everybody.process_set_id, everybody.ranks) == (0, [0, 1])
    if call.hvd.__name__ != "hipress.horovod.keras" and "tensorflow.keras" not in call.hvd.__name__:
        _is(call, call.hvd.allreduce(call.tensor(1.0 + call.rank), process_set=everybody), 1.5)


def added_process_sets(call: Call) -> None:
    sets = [call.hvd.add_process_set([0]), call.hvd.add_process_set(call.hvd.ProcessSet([1]))]
    assert [each.process_set_id for each in sets] == [1, 2]
    assert [each.included() for each in sets] == [call.rank == 0, call.rank == 1]
    for ranks in ([0], range(1, -1, -1)):
        with pytest.raises(ValueError, match="registered already"):
            call.hvd.add_process_set(ranks)
    if "keras" not in call.hvd.__name__:
        _is(call, call.hvd.allreduce(call.tensor(5.0 + call.rank), process_set=sets[call.rank]), 5.0 + call.rank)
    assert call.hvd.remove_process_set(sets[0])
    assert sets[0].process_set_id is None
    again = call.hvd.add_process_set([0])
    assert again.process_set_id == 1  # numbers come again, as in Horovod
    for each in (again, sets[1]):
        assert call.hvd.remove_process_set(each)
    assert not call.hvd.remove_process_set(call.hvd.global_process_set)


# Checks of names that differ.


def init(call: Call) -> None:
    call.hvd.init()  # a second call does nothing
    call.hvd.init(process_sets="dynamic")  # so it is always
    with pytest.raises(Unsupported, match="all ranks"):
        call.hvd.init(comm=[0])
    with pytest.raises(InvalidArgument, match="dynamic"):
        call.hvd.init(process_sets="static")


def process_set(call: Call) -> None:
    with pytest.raises(Unsupported, match="communicators"):
        call.hvd.ProcessSet(object())
    assert call.hvd.ProcessSet((1, 0)).ranks == [0, 1]
    assert str(call.hvd.ProcessSet([1])) == "ProcessSet(process_set_id=None, ranks=[1], mpi_comm=None)"
    with pytest.raises(ValueError, match="not registered"):
        call.hvd.ProcessSet([1]).size()


def objects(call: Call) -> None:
    mine = {"rank": call.rank, "list": [1, None, "x"]}
    function = getattr(call.hvd, call.function)
    if call.function == "allgather_object":
        assert function(mine, name="o") == [{**mine, "rank": rank} for rank in range(2)]
        give = function
    elif call.function == "broadcast_object_fn":
        assert function(1, name="o")(mine) == {**mine, "rank": 1}
        give = function(call.rank)
    else:
        assert function(mine, 1, name="o") == {**mine, "rank": 1}
        assert function(obj=mine, root_rank=0) == {**mine, "rank": 0}

        def give(value: Any) -> Any:
            return function(value, call.rank)

    # Each rank is its own root here, so the call fails before it sends anything.
    with pytest.raises(Exception, match=r"."):
        give(lambda: 1)


def allreduce_of_values(call: Call) -> None:
    """horovod.tensorflow.keras averages values that are not tensors."""
    assert call.hvd.allreduce([1.0 + call.rank]).tolist() == [1.5]
    assert float(call.hvd.allreduce(call.rank + 1.0, op=call.hvd.Sum)) == 3.0


def allgather_of_values(call: Call) -> None:
    assert call.hvd.allgather([float(call.rank)] * (call.rank + 1)).tolist() == [0.0, 1.0, 1.0]


def broadcast_of_values(call: Call) -> None:
    assert float(call.hvd.broadcast(call.rank + 1.0, 1)) == 2.0


def reducescatter_of_values(call: Call) -> None:
    assert call.hvd.reducescatter([call.rank + 1.0] * 2).tolist() == [1.5]


def internal_error(call: Call) -> None:
    assert call.hvd.HorovodInternalError is HipressError
    with pytest.raises(call.hvd.HorovodInternalError) as raised:
        call.hvd.allreduce(call.tensor(1.0), op="median")
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, InvalidArgument)


_PLACES: dict[str, Check] = {
    "is_initialized": answers(True),
    "is_homogeneous": answers(True),
    "rank": number(lambda rank: rank),
    "local_rank": number(lambda rank: rank),
    "cross_rank": number(lambda rank: 0),
    "size": number(lambda rank: 2),
    "local_size": number(lambda rank: 2),
    "cross_size": number(lambda rank: 1),
    "ccl_built": answers(False),
    "ddl_built": answers(False),
    "rocm_built": answers(False),
    "cuda_built": cuda_built,
    "start_timeline": timeline,
    "stop_timeline": timeline,
    "shutdown": shutdown,
    "global_process_set": global_process_set,
    **dict.fromkeys(["add_process_set", "remove_process_set"], added_process_sets),
    "Average": operation("Average", 2.5),
    "Sum": operation("Sum", 5.0),
    "Compression": compression,
}

SAME: dict[str, Check] = {
    **_PLACES,
    **dict.fromkeys(["allreduce", "allreduce_", "allreduce_async", "allreduce_async_"], allreduce),
    **dict.fromkeys(
        ["grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_"],
        grouped_allreduce,
    ),
    **dict.fromkeys(["allgather", "allgather_async"], allgather),
    **dict.fromkeys(["grouped_allgather", "grouped_allgather_async"], grouped_allgather),
    **dict.fromkeys(["broadcast", "broadcast_", "broadcast_async", "broadcast_async_"], broadcast),
    **dict.fromkeys(["alltoall", "alltoall_async"], alltoall),
    **dict.fromkeys(["reducescatter", "reducescatter_async"], reducescatter),
    **dict.fromkeys(["grouped_reducescatter", "grouped_reducescatter_async"], grouped_reducescatter),
    "Min": operation("Min", 2.0),
    "Max": operation("Max", 3.0),
    "Product": operation("Product", 6.0),
}

#: The names that horovod.tensorflow.keras and horovod.keras share.
KERAS_SAME: dict[str, Check] = {
    **_PLACES,
    "allreduce": allreduce_of_values,
    "allgather": allgather_of_values,
    "broadcast": broadcast_of_values,
    "reducescatter": reducescatter_of_values,
}

DIFFERS: dict[str, Check] = {
    "init": init,
    "ProcessSet": process_set,
    "HorovodInternalError": internal_error,
    "nccl_built": answers(0),
    **dict.fromkeys(
        ["mpi_built", "mpi_enabled", "mpi_threads_supported", "gloo_built", "gloo_enabled"], answers(False)
    ),
    **dict.fromkeys(["broadcast_object", "allgather_object", "broadcast_object_fn"], objects),
}
