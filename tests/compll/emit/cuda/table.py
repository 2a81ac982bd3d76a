# SPDX-License-Identifier: Apache-2.0
"""Calls the function table of a generated codec (core/ops/cuda/cuda_codec.h) through ctypes.

`Memory` holds the codec's vectors in the processor's memory; device.py has a class for a GPU's memory.
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
from hipress.compll.emit.text import gpu_table
from hipress.compll.reference.instantiate import bind_params

Array = NDArray[Any]
_ALIGNMENT = 256
#: Bytes of hipress::cuda::Counters.
COUNTERS = 16


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
        ("counters", ctypes.c_void_p),
        ("agreed", ctypes.c_void_p),
        ("agreed_bytes", ctypes.c_size_t),
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
        ("counters", ctypes.c_void_p),
    )


class _Contribution(ctypes.Structure):
    _fields_ = (
        ("values", ctypes.c_void_p),
        ("payload", ctypes.c_void_p),
        ("payload_bytes", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
    )


class _Sum(ctypes.Structure):
    _fields_ = (
        ("params", ctypes.POINTER(ctypes.c_double)),
        ("contributions", ctypes.POINTER(_Contribution)),
        ("number", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("factor", ctypes.c_float),
        ("output", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("scratch", ctypes.c_void_p),
    )


_Doubles = ctypes.POINTER(ctypes.c_double)


class _Table(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kernels", ctypes.c_char_p),
        ("states", ctypes.c_size_t),
        ("params", ctypes.c_size_t),
        ("max_encoded_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, _Doubles, ctypes.c_size_t)),
        ("encode_scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, _Doubles, ctypes.c_size_t)),
        ("decode_scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, _Doubles, ctypes.c_size_t, ctypes.c_size_t)),
        ("encode", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Encode), ctypes.c_void_p)),
        ("decode", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Decode), ctypes.c_void_p)),
        ("refusal", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_uint32)),
        ("sum_scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)),
        ("sum", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Sum), ctypes.c_void_p)),
        ("statistics_scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, _Doubles, ctypes.c_size_t)),
        ("statistics", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Encode), ctypes.c_void_p)),
        ("agreed_scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, _Doubles, ctypes.c_size_t, ctypes.c_size_t)),
        ("encode_agreed", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Encode), ctypes.c_void_p)),
    )


class Refused(Exception):
    """The codec has reported an error."""


class Memory:
    """Vectors in the processor's memory."""

    def put(self, values: Array) -> Any:
        """A copy of an array; address() and get() take it."""
        kept = self.room(values.nbytes)
        kept[:] = values.view(np.uint8)
        return kept

    def room(self, size: int) -> Any:
        """Memory of `size` bytes with arbitrary content, with the alignment that codecs need."""
        memory = np.full(size + _ALIGNMENT, 0xA5, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        return memory[start : start + size]

    def address(self, kept: Any) -> int:
        return int(kept.ctypes.data)

    def launcher(self, kernels: str) -> Any:
        """The stream argument for functions that start these kernels; None if the library contains the kernels."""
        return None

    def get(self, kept: Any, dtype: Any) -> Array:
        """The content, after all started calls have ended."""
        values: Array = kept.view(dtype).copy()
        return values


@dataclass(frozen=True)
class Call:
    seed: int = 0
    step: int = 0
    tensor: int = 0
    first_element: int = 0
    scale: float = 1.0


def table_of(library: Path, name: str) -> Any:
    """The function table of a codec."""
    function = getattr(ctypes.CDLL(str(library)), gpu_table(name))
    function.restype = ctypes.POINTER(_Table)
    return function().contents


class CudaCodec:
    """A generated codec with values for its parameters; its interface is like the interpreter's."""

    def __init__(self, library: Path, program: ir.Program, memory: Memory, params: Mapping[str, Any]) -> None:
        values = bind_params(program.params, dict(params))
        self.table = table_of(library, program.name)
        self.launcher = memory.launcher(self.table.kernels.decode())
        assert self.table.params == len(program.params)
        self.params = (ctypes.c_double * max(1, len(program.params)))(*(float(values[p.name]) for p in program.params))
        assert program.encode is not None
        self.states, self.state_length, self.memory = program.encode.states, program.encode.state_length, memory
        self._counters = memory.put(np.zeros(COUNTERS, np.uint8))

    @property
    def counters(self) -> int:
        """The address of the counters, which every call finds as zeros and leaves as zeros."""
        return self.memory.address(self._counters)

    def check_counters(self) -> None:
        assert not self.memory.get(self._counters, np.uint8).any()

    def max_encoded_bytes(self, count: int) -> int:
        return int(self.table.max_encoded_bytes(self.params, count))

    def new_state(self, count: int) -> dict[str, Array]:
        return {name: np.zeros(self.state_length(name, count), np.float32) for name in self.states}

    def encode(self, gradient: Array, state: dict[str, Array] | None, call: Call) -> bytes:
        """Encodes a gradient and returns the message; the states change in place."""
        prepared = Prepared(self, gradient, state, call)
        prepared.encode()
        size = prepared.check()
        if size and state is not None:
            for name, values in zip(self.states, prepared.before, strict=True):
                state[name][:] = self.memory.get(values, np.float32)
        assert size <= self.max_encoded_bytes(len(gradient))
        return bytes(self.memory.get(prepared.message, np.uint8)[:size])

    def decode_into(self, data: bytes, output: Array, *, accumulate: bool = False, spare: int = 0) -> None:
        """Decodes a payload. With `spare` more bytes of room, the device memory gives the payload's size. Raises
        Refused."""
        memory, count, capacity = self.memory, len(output), len(data) + spare
        payload = memory.put(np.frombuffer(data + bytes(spare), np.uint8))
        target = memory.put(output)
        size = memory.put(np.array([len(data)], np.uint32))
        error = memory.put(np.full(1, 0xFFFFFFFF, np.uint32))
        scratch = memory.room(self.table.decode_scratch_bytes(self.params, count, capacity))
        self.table.decode(
            _Decode(
                params=self.params,
                payload=memory.address(payload),
                payload_bytes=memory.address(size) if spare else None,
                capacity=capacity,
                output=memory.address(target),
                count=count,
                accumulate=int(accumulate),
                error=memory.address(error),
                scratch=memory.address(scratch),
                counters=self.counters,
            ),
            self.launcher,
        )
        self.check_counters()
        code = int(memory.get(error, np.uint32)[0])
        output[:] = memory.get(target, np.float32)
        if code:
            raise Refused(self.table.refusal(code).decode())

    @property
    def sums(self) -> bool:
        """Whether sum() exists."""
        return bool(self.table.sum)

    def sum(self, contributions: list[bytes | Array], count: int, *, factor: float = 1.0) -> tuple[Array, list[int]]:
        """The sum of messages and of values times `factor`; and the errors, one for each contribution. Values of the
        last contribution that has some are overwritten with the sum."""
        memory, number = self.memory, len(contributions)
        errors = memory.put(np.zeros(max(1, number), np.uint32))
        listed, output, kept = (_Contribution * number)(), memory.room(4 * count), []
        capacity = self.max_encoded_bytes(count)
        for place, one in enumerate(contributions):
            if isinstance(one, bytes):
                payload = memory.put(np.frombuffer(one + bytes(max(0, capacity - len(one))), np.uint8))
                size = memory.put(np.array([len(one)], np.uint32))
                at = [memory.address(payload), memory.address(size), memory.address(errors) + 4 * place]
                listed[place] = _Contribution(None, *at)
                kept += [payload, size]
            else:
                output = memory.put(one)
                listed[place] = _Contribution(memory.address(output), None, None, None)
                kept.append(output)
        scratch = memory.room(self.table.sum_scratch_bytes(number, count))
        call = _Sum(
            params=self.params,
            contributions=listed,
            number=number,
            capacity=capacity,
            factor=factor,
            output=memory.address(output),
            count=count,
            scratch=memory.address(scratch),
        )
        self.table.sum(call, self.launcher)
        return memory.get(output, np.float32), [int(error) for error in memory.get(errors, np.uint32)]


class Prepared:
    """Calls of a codec with their own memory, ready for repetition in each step."""

    def __init__(self, codec: CudaCodec, gradient: Array, state: dict[str, Array] | None, call: Call) -> None:
        memory, count = codec.memory, len(gradient)
        room = codec.max_encoded_bytes(count)
        self._codec, self._call, self.message = codec, call, memory.room(room)
        self._step = call.step
        self.before = [] if state is None else [memory.put(state[name]) for name in codec.states]
        self._after = [memory.room(4 * codec.state_length(name, count)) for name in codec.states[: len(self.before)]]
        self._results = memory.put(np.full(3, 0xFFFFFFFF, np.uint32))
        self._source, self._count, self._stateless = memory.put(gradient), count, state is None
        self._scratch = memory.room(codec.table.encode_scratch_bytes(codec.params, count))
        self._output = memory.put(np.zeros(count, np.float32))
        self._decode_scratch = memory.room(codec.table.decode_scratch_bytes(codec.params, count, room))
        self._decode = _Decode(
            params=codec.params,
            payload=memory.address(self.message),
            payload_bytes=memory.address(self._results),
            capacity=room,
            output=memory.address(self._output),
            count=count,
            accumulate=1,
            error=memory.address(self._results) + 8,
            scratch=memory.address(self._decode_scratch),
            counters=codec.counters,
        )

    def encode(self) -> None:
        """Encodes the next step, which reads the states of the step before."""
        memory, call = self._codec.memory, self._call
        pointers = ctypes.c_void_p * max(1, len(self.before))
        self._codec.table.encode(
            _Encode(
                params=self._codec.params,
                gradient=memory.address(self._source),
                count=self._count,
                before=None if self._stateless else pointers(*map(memory.address, self.before)),
                after=None if self._stateless else pointers(*map(memory.address, self._after)),
                seed=call.seed,
                step=self._step,
                first_element=call.first_element,
                tensor=call.tensor,
                scale=call.scale,
                message=memory.address(self.message),
                message_bytes=memory.address(self._results),
                error=memory.address(self._results) + 4,
                scratch=memory.address(self._scratch),
                counters=self._codec.counters,
            ),
            self._codec.launcher,
        )
        self.before, self._after = self._after, self.before
        self._step += 1

    def decode(self) -> None:
        """Decodes the last message and adds its values to a vector."""
        self._codec.table.decode(self._decode, self._codec.launcher)

    def check(self) -> int:
        """The size of the last message in bytes. Raises Refused if the codec has reported an error."""
        self._codec.check_counters()
        size, *errors = map(int, self._codec.memory.get(self._results, np.uint32))
        for error in errors:
            if error not in (0, 0xFFFFFFFF):
                raise Refused(self._codec.table.refusal(error).decode())
        return size
