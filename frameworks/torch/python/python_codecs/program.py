# SPDX-License-Identifier: Apache-2.0
"""A codec in Python with its options: what the core calls.

HiPress does here what every codec needs and no class should have to do: scaling, error feedback, states that a step may
drop, and messages that prove their layout.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from hipress.codecs.typed import Value, codec_text
from hipress.errors import CorruptPayload, HipressError, InvalidArgument
from hipress.torch.python_codecs import memory as memories
from hipress.torch.python_codecs.declaration import OWN_OPTIONS, RESIDUAL, Declaration
from hipress.torch.python_codecs.encode_state import EncodeKey, EncodeState
from hipress.torch.python_codecs.layout import Layout, bytes_of, head_of, layout_of, pack, read_head, shapes, unpack
from hipress.torch.python_codecs.supplied import Supplied

#: As many bytes hold the layout of every message that a class can be expected to make.
_MOST_HEAD = 4096


class Program:
    """One configuration of a class. Thread-safe as far as the class is."""

    def __init__(self, declaration: Declaration, values: dict[str, Value], layouts: dict[int, Layout]) -> None:
        """`values`: of all options; `layouts`: of all programs with these options, by the number of values."""
        self._declaration, self._layouts = declaration, layouts
        self._supplied = Supplied(
            declaration.name,
            declaration.kind,
            {option: value for option, value in values.items() if option not in OWN_OPTIONS},
        )
        self._feeds_back = declaration.keeps_residual and bool(values["error_feedback"])
        self._residual_factor = float(values.get("residual_factor", 1.0))
        self.gradient_factor = float(values.get("gradient_factor", 1.0))
        self.states = [name for name in declaration.all_states if name != RESIDUAL or self._feeds_back]
        #: Whether an aggregator's encode differs from a worker's.
        self.merges_otherwise = bool(declaration.states) or self.gradient_factor != 1
        said = {
            option: value
            for option, value in values.items()
            if option not in OWN_OPTIONS or not option.endswith("_factor") or value != 1
        }
        self.signature = f"{codec_text(declaration.name, said)}#{declaration.fingerprint}"

    def refusal(self, _error: int) -> str:
        """The meaning of an error number that decode() writes."""
        return "a message has another size or layout than messages of as many elements have"

    def bound(self, count: int) -> int:
        """The greatest message of as many values. Raises InvalidArgument."""
        layout = self.layout(count)
        if self._supplied.has_any_length:
            return len(head_of(layout)) + self._supplied.max_bytes(count)
        return bytes_of(layout)

    def layout(self, count: int) -> Layout:
        """Of a trial with as many values. All messages have it unless the class has max_bytes()."""
        if count not in self._layouts:
            generator = torch.Generator().manual_seed(count)
            self._layouts[count] = layout_of(self.tried(torch.randn(count, generator=generator)))
        return self._layouts[count]

    def tried(self, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The message of values of the processor in a first step."""
        with torch.no_grad(), _without_autocast(values.device):
            states = {name: torch.zeros_like(values) for name in self._declaration.states}
            return self._supplied.encode(
                values.clone(), EncodeState(EncodeKey(0, 0, 0, 0), states, values.device, merged=False)
            )

    def decoded(self, tensors: tuple[torch.Tensor, ...], count: int) -> torch.Tensor:
        """The values of a message on the processor."""
        with torch.no_grad(), _without_autocast(torch.device("cpu")):
            return self._supplied.decode(tuple(each.clone() for each in tensors), count, torch.device("cpu"))

    def encode(
        self,
        place: tuple[int, int] | None,
        values: int,
        count: int,
        before: Sequence[int],
        after: Sequence[int],
        message: int,
        room: int,
        result: int,
        key: tuple[int, int, int, int],
        scale: float,
        merged: bool,
    ) -> int:
        """As Codec::encode() of the core, and on a GPU as DeviceStream::encode(): `place` is then the GPU and its
        stream, and the size and an error number go to the two words at `result`. Raises InvalidArgument."""
        memory = _memory(place)
        with memory.entered(), torch.no_grad(), _without_autocast(memory.device):
            given = memory.tensor(values, count, torch.float32) * scale
            kept = {name: torch.zeros_like(given) for name in self.states}
            for name, address in zip(self.states, before, strict=bool(before)):
                kept[name].copy_(memory.tensor(address, count, torch.float32))
            if self._feeds_back:
                given += self._residual_factor * kept.pop(RESIDUAL)
            if memory.is_host and not _finite([given]):
                return 0
            state = EncodeState(EncodeKey(*key), kept, memory.device, merged)
            # A class gets finite values only; on a GPU the host does not know yet that others have no message.
            tensors = self._supplied.encode(given.clone() if memory.is_host else given.nan_to_num(0, 0, 0), state)
            new = self._supplied.new_states(state, given)
            if self._feeds_back:
                decoded = self._supplied.decode(tuple(each.clone() for each in tensors), count, memory.device)
                new = [given - decoded, *new]
            layout = self._fitting(tensors, count, room)
            size = bytes_of(layout)
            pack(tensors, _head(layout, memory.device), memory.tensor(message, size, torch.uint8))
            for address, each in zip(after, new, strict=bool(after)):
                memory.tensor(address, count, torch.float32).copy_(each)
            if memory.is_host:
                return size if _finite(new) else 0
            finite = _finite([given, *new])
            words = memory.tensor(result, 2, torch.int32)
            words[0] = finite * size
            words[1] = 0
            return size

    def decode(
        self,
        place: tuple[int, int] | None,
        payload: int,
        room: int,
        payload_bytes: int,
        output: int,
        count: int,
        accumulate: bool,
        error: int,
    ) -> None:
        """As Codec::decode() of the core, and on a GPU as DeviceStream::decode(). `payload_bytes`: the address of the
        message's size; 0: it is `room`. Raises CorruptPayload."""
        memory = _memory(place)
        with memory.entered(), torch.no_grad(), _without_autocast(memory.device):
            result = memory.tensor(output, count, torch.float32)
            message = memory.tensor(payload, room, torch.uint8)
            if memory.is_host:
                values = self._values_of(message, count)
                result.copy_(result + values if accumulate else values)
                return
            size = memory.tensor(payload_bytes, 1, torch.int32)[0] if payload_bytes else None
            self._decode_there(message, size, result, accumulate, memory.tensor(error, 1, torch.int32))

    def _values_of(self, message: torch.Tensor, count: int) -> torch.Tensor:
        layout = read_head(message[:_MOST_HEAD].cpu().numpy().tobytes())
        expected = layout if self._supplied.has_any_length else self.layout(count)
        if layout != expected or len(message) != bytes_of(layout):
            raise CorruptPayload(
                f"codec {self._declaration.name}: a payload of {len(message)} bytes with {shapes(layout)}; {count} "
                f"values have {shapes(expected)} in {bytes_of(expected)} bytes"
            )
        return self._supplied.decode(unpack(message, layout), count, message.device)

    def _decode_there(
        self,
        message: torch.Tensor,
        size: torch.Tensor | None,
        result: torch.Tensor,
        accumulate: bool,
        error: torch.Tensor,
    ) -> None:
        """On a GPU, without waiting for it: it compares the message's layout with the trial's."""
        if self._supplied.has_any_length:
            return self._decode_any_length(message, size, result, accumulate, error)
        layout, device = self.layout(len(result)), message.device
        expected, head = bytes_of(layout), _head(layout, device)
        if expected > len(message):
            error.fill_(1)
            return
        length = torch.full_like(error[0], len(message)) if size is None else size
        refused = length == 0
        good = (length == expected) & (message[: len(head)] == head).all()
        # Of a message that is not good no byte reaches the class: an index of it might lead out of the tensor.
        told = torch.where(good, message[:expected], head.new_zeros(()))
        values = self._supplied.decode(unpack(told, layout), len(result), device)
        values = torch.where(refused, torch.nan, result + values if accumulate else values)
        result.copy_(torch.where(good | refused, values, result))
        error[0] = ~(good | refused)

    def _decode_any_length(
        self,
        message: torch.Tensor,
        size: torch.Tensor | None,
        result: torch.Tensor,
        accumulate: bool,
        error: torch.Tensor,
    ) -> None:
        """The same for lengths that depend on values: the host reads the layout, and waits for it."""
        length = len(message) if size is None else int(size)
        if length == 0:
            result.fill_(torch.nan)
            error.zero_()
            return
        try:
            values = self._values_of(message[:length], len(result))
        except HipressError:
            error.fill_(1)
            return
        result.copy_(result + values if accumulate else values)
        error.zero_()

    def _fitting(self, tensors: tuple[torch.Tensor, ...], count: int, room: int) -> Layout:
        """The message's layout. Raises InvalidArgument if it is longer than the class has said, or another one."""
        layout, codec = layout_of(tensors), self._declaration.name
        if not self._supplied.has_any_length and layout != self.layout(count):
            raise InvalidArgument(
                f"codec {codec}: a message of {count} values has {shapes(layout)}, and in a trial it had "
                f"{shapes(self.layout(count))}: if lengths depend on values, the class needs max_bytes(self, count), "
                "the most bytes that the tensors of a message take"
            )
        if bytes_of(layout) > room:
            raise InvalidArgument(
                f"codec {codec}: the tensors of a message of {count} values take "
                f"{bytes_of(layout) - len(head_of(layout))} bytes, and max_bytes({count}) is "
                f"{room - len(head_of(layout))}"
            )
        return layout


def _memory(place: tuple[int, int] | None) -> memories.Memory:
    return memories.HostMemory() if place is None else memories.gpu_memory(*place)


def _finite(vectors: list[torch.Tensor]) -> torch.Tensor:
    # The least and the greatest value take one pass over memory; a NaN is both.
    ends = [end for vector in vectors for end in torch.aminmax(vector)]
    return torch.isfinite(torch.stack(ends)).all() if ends else torch.tensor(True)


def _without_autocast(device: torch.device) -> torch.autocast:
    """A step within autocast gives the bits of one outside it."""
    return torch.autocast(device.type, enabled=False)


@functools.lru_cache(maxsize=4096)
def _head(layout: Layout, device: torch.device) -> torch.Tensor:
    return torch.tensor(list(head_of(layout)), dtype=torch.uint8).to(device)
