# SPDX-License-Identifier: Apache-2.0
"""The table of functions of a generated codec (core/ops/cuda/cuda_codec.h), called through ctypes.

`Memory` is where the codec's vectors are: the processor's memory here, a GPU's in device.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.emit_cuda_codec import table_function
from hipress.compll.instantiate import bind_params

Array = NDArray[Any]
_ALIGNMENT = 256


class _Encode(ctypes.Structure):
    _fields_ = (
        ("params", ctypes.POINTER(ctypes.c_double)),
        ("gradient", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("before", ctypes.POINTER(ctypes.c_void_p)),
        ("after", ctypes.POINTER(ctypes.c_void_p)),
        ("seed", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("first_element", ctypes.c_uint64),
        ("tensor", ctypes.c_uint32),
        ("scale", ctypes.c_float),
        ("message", ctypes.c_void_p),
        ("message_bytes", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
    )


class _Decode(ctypes.Structure):
    _fields_ = (
        ("params", ctypes.POINTER(ctypes.c_double)),
        ("payload", ctypes.c_void_p),
        ("payload_bytes", ctypes.c_void_p),
        ("capacity", ctypes.c_size_t),
        ("output", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("accumulate", ctypes.c_uint32),
        ("error", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
    )


_Doubles = ctypes.POINTER(ctypes.c_double)


class _Table(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("states", ctypes.c_size_t),
        ("params", ctypes.c_size_t),
        ("max_encoded_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, _Doubles, ctypes.c_size_t)),
        ("encode_scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, _Doubles, ctypes.c_size_t)),
        ("decode_scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, _Doubles, ctypes.c_size_t, ctypes.c_size_t)),
        ("encode", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Encode), ctypes.c_void_p)),
        ("decode", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Decode), ctypes.c_void_p)),
        ("refusal", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_uint32)),
    )


class Refused(Exception):
    """The codec set its error."""


class Memory:
    """Vectors in the processor's memory."""

    def put(self, values: Array) -> Any:
        """A copy of an array; give it to address() and get()."""
        kept = self.room(values.nbytes)
        kept[:] = values.view(np.uint8)
        return kept

    def room(self, size: int) -> Any:
        """Memory of `size` bytes with any content, aligned as codecs want it."""
        memory = np.full(size + _ALIGNMENT, 0xA5, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        return memory[start : start + size]

    def address(self, kept: Any) -> int:
        return int(kept.ctypes.data)

    def get(self, kept: Any, dtype: Any) -> Array:
        """What is in it, after everything that has been started."""
        values: Array = kept.view(dtype).copy()
        return values


@dataclass(frozen=True)
class Call:
    seed: int = 0
    step: int = 0
    tensor: int = 0
    first_element: int = 0
    scale: float = 1.0


class CudaCodec:
    """A generated codec with values for its parameters; the interface is like the interpreter's."""

    def __init__(self, library: Path, program: ir.Program, memory: Memory, params: Mapping[str, Any]) -> None:
        values = bind_params(program.params, dict(params))
        function = getattr(ctypes.CDLL(str(library)), table_function(program.name))
        function.restype = ctypes.POINTER(_Table)
        self._table = function().contents
        assert self._table.params == len(program.params)
        self._params = (ctypes.c_double * max(1, len(program.params)))(*(float(values[p.name]) for p in program.params))
        assert program.encode is not None
        self._states, self._memory = program.encode.states, memory

    def max_encoded_bytes(self, count: int) -> int:
        return int(self._table.max_encoded_bytes(self._params, count))

    def new_state(self, count: int) -> dict[str, Array]:
        return {name: np.zeros(count, np.float32) for name in self._states}

    def encode(self, gradient: Array, state: dict[str, Array] | None, call: Call) -> bytes:
        """The message; states change in place."""
        memory, count = self._memory, len(gradient)
        kept = [] if state is None else [memory.put(state[name]) for name in self._states]
        new = [memory.room(4 * count) for _ in kept]
        pointers = ctypes.c_void_p * max(1, len(kept))
        source, message = memory.put(gradient), memory.room(self.max_encoded_bytes(count))
        results = memory.put(np.full(2, 0xFFFFFFFF, np.uint32))
        scratch = memory.room(self._table.encode_scratch_bytes(self._params, count))
        self._table.encode(
            _Encode(
                params=self._params,
                gradient=memory.address(source),
                count=count,
                before=None if state is None else pointers(*map(memory.address, kept)),
                after=None if state is None else pointers(*map(memory.address, new)),
                seed=call.seed,
                step=call.step,
                first_element=call.first_element,
                tensor=call.tensor,
                scale=call.scale,
                message=memory.address(message),
                message_bytes=memory.address(results),
                error=memory.address(results) + 4,
                scratch=memory.address(scratch),
            ),
            None,
        )
        size, error = map(int, memory.get(results, np.uint32))
        if error:
            raise Refused(self._table.refusal(error).decode())
        if size and state is not None:
            for name, values in zip(self._states, new, strict=True):
                state[name][:] = memory.get(values, np.float32)
        assert size <= self.max_encoded_bytes(count)
        return bytes(memory.get(message, np.uint8)[:size])

    def decode_into(self, data: bytes, output: Array, *, accumulate: bool = False, spare: int = 0) -> None:
        """With `spare` more bytes of room, the size is given on the device. Raises Refused."""
        memory, count, capacity = self._memory, len(output), len(data) + spare
        payload = memory.put(np.frombuffer(data + bytes(spare), np.uint8))
        target = memory.put(output)
        size = memory.put(np.array([len(data)], np.uint32))
        error = memory.put(np.full(1, 0xFFFFFFFF, np.uint32))
        scratch = memory.room(self._table.decode_scratch_bytes(self._params, count, capacity))
        self._table.decode(
            _Decode(
                params=self._params,
                payload=memory.address(payload),
                payload_bytes=memory.address(size) if spare else None,
                capacity=capacity,
                output=memory.address(target),
                count=count,
                accumulate=int(accumulate),
                error=memory.address(error),
                scratch=memory.address(scratch),
            ),
            None,
        )
        code = int(memory.get(error, np.uint32)[0])
        output[:] = memory.get(target, np.float32)
        if code:
            raise Refused(self._table.refusal(code).decode())
