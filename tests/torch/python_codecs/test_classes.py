# SPDX-License-Identifier: Apache-2.0
"""A class with encode and decode is a codec of the core: options, states, messages and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument
from hipress.torch.python_codecs import EncodeState, layout, memory, register_codec
from hipress.torch.python_codecs.declaration import declaration_of
from hipress.torch.python_codecs.program import Program
from tests.torch.python_codecs import codecs

COUNTS = [1, 7, 255, 256, 257, 1023, 1024, 1025, 5000]


def _values(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def _made(kind: type, **options: Any) -> _core.Codec:
    return _core.create_codec(register_codec(kind)(**options))


@pytest.mark.parametrize("count", COUNTS)
def test_a_class_gives_what_plain_numpy_gives(count: int) -> None:
    codec, states, residual = _made(codecs.PyInt8), {"residual": np.zeros(count, np.float32)}, np.zeros(count)
    for step in range(3):
        entering = (0.5 * _values(count, step) + residual).astype(np.float32)
        scale = np.maximum(np.abs(entering).max() / np.float32(127), np.float32(1e-38))
        levels = np.rint(entering / scale).astype(np.int8)
        message = codec.encode(_values(count, step), states, step=step, scale=0.5)
        assert message == (
            b"\2"  # tensors: int8[count], float32[]
            + bytes([layout.TYPES.index(torch.int8), 1])
            + count.to_bytes(4, "little")
            + bytes([layout.TYPES.index(torch.float32), 0])
            + levels.tobytes()
            + scale.tobytes()
        )
        np.testing.assert_array_equal(codec.decode(message, count), levels * scale)
        residual = entering - levels * scale
        np.testing.assert_array_equal(states["residual"], residual)


def test_nothing_is_sent_of_no_elements() -> None:
    codec = _made(codecs.PyInt8)
    assert codec.encode(np.empty(0, np.float32)) == b""
    assert codec.decode(b"", 0).size == 0


def test_options_are_arguments_of_the_class() -> None:
    topk = register_codec(codecs.PyTopK)
    assert (topk, topk(ratio=0.25)) == ("pytopk", "pytopk(ratio=0.25)")
    count = len(_core.create_codec(topk(ratio=0.25)).encode(_values(1000)))
    assert count == 1 + 2 * 6 + 250 * 8
    described = next(each for each in _core.describe_codecs() if each["name"] == "pytopk")
    assert described["summary"] == "The values of the greatest magnitudes, and their places; of equal ones the first."
    assert [option["name"] for option in described["options"]] == [
        *("ratio", "error_feedback", "residual_factor", "gradient_factor")
    ]
    for wrong, sentence in [
        ({"ratoi": 1}, "has no option 'ratoi'.*did you mean ratio"),
        ({"ratio": "much"}, "option ratio is much; it must be of type float"),
        ({"residual_factor": 2.0}, "option residual_factor is 2.0; it must be 0 to 1"),
        ({"residual_factor": 0.5, "error_feedback": False}, "no residual is kept"),
    ]:
        with pytest.raises(InvalidArgument, match=sentence):
            topk(**wrong)


def test_without_error_feedback_no_residual_is_kept() -> None:
    assert _made(codecs.PyTopK).states == ("residual",)
    assert _made(codecs.PyTopK, error_feedback=False).states == ()
    assert _made(codecs.PyRandom).states == ()
    with pytest.raises(InvalidArgument, match="has no option 'error_feedback'"):
        register_codec(codecs.PyRandom)(error_feedback=True)


def test_states_last_and_an_aggregator_knows_that_it_is_one() -> None:
    codec = _made(codecs.PyMomentum, error_feedback=False)
    states = {"momentum": np.ones(9, np.float32)}
    codec.encode(_values(9), states)
    np.testing.assert_array_equal(states["momentum"], np.float32(0.5) + _values(9))
    merged = {"momentum": np.ones(9, np.float32)}
    codec.for_aggregate().encode(_values(9), merged)
    np.testing.assert_array_equal(merged["momentum"], np.ones(9))


def test_random_numbers_are_those_of_seed_step_tensor_and_place() -> None:
    codec = _made(codecs.PyRandom)
    keys = [{}, {"seed": 1}, {"step": 1}, {"tensor": 1}, {"first_element": 1024}]
    messages = [codec.encode(_values(1000), **key) for key in keys]
    assert len(set(messages)) == len(keys)
    assert messages == [codec.encode(_values(1000), **key) for key in keys]


def test_lengths_may_depend_on_values_if_the_class_says_their_limit() -> None:
    codec = _made(codecs.PyThreshold)
    few, many = np.zeros(1000, np.float32), np.full(1000, 2, np.float32)
    assert len(codec.encode(few)) == 13
    assert len(codec.encode(many)) == 13 + 8000 == codec.max_encoded_bytes(1000)
    np.testing.assert_array_equal(codec.decode(codec.encode(many), 1000), many)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_has_an_empty_message_and_changes_no_state(value: float) -> None:
    for kind in codecs.ALL:
        codec, values = _made(kind), _values(100)
        values[50] = value
        states = {name: np.ones(100, np.float32) for name in codec.states}
        assert codec.encode(values, states or None) == b""
        assert all((each == 1).all() for each in states.values())


def test_a_message_of_another_layout_is_refused() -> None:
    codec, output = _made(codecs.PyInt8), np.ones(100, np.float32)
    message = codec.encode(_values(100))
    for bad in [
        *(message[:-1], message + b"\0", b"\0", b"\1", b"\2\1"),
        codec.encode(_values(99)),
        _made(codecs.PyTopK).encode(_values(100)),
        b"\2\xff" + message[2:],
    ]:
        with pytest.raises(CorruptPayload, match=r"pyint8: a payload|bytes that begin with no list"):
            codec.decode_into(bad, output)
    assert (output == 1).all()


def test_a_message_that_leads_out_of_the_tensor_is_refused() -> None:
    codec = _made(codecs.PyTopK)
    message = bytearray(codec.encode(_values(100)))
    message[-4:] = (10_000).to_bytes(4, "little")
    with pytest.raises(CorruptPayload, match=r"pytopk: decode raised IndexError: .*\(codecs.py, line \d+\)"):
        codec.decode(bytes(message), 100)


class _OfAGpu(memory.HostMemory):
    """The host's memory, as that of a GPU which is always done."""

    is_host = False

    def __init__(self, _index: int, _stream: int) -> None: ...


@pytest.mark.parametrize("kind", [codecs.PyInt8, codecs.PyThreshold])
def test_on_a_gpu_a_bad_message_sets_the_error_and_an_empty_one_is_nan(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "gpu_memory", _OfAGpu)
    declared = declaration_of(kind, None)
    values = {name: value for name, value in (("error_feedback", False),) if declared.keeps_residual}
    program = Program(declared, values, {})
    good = _made(kind, **values).encode(2 * _values(100))
    room = np.zeros(2000, np.uint8)
    bad_place = good[:-4] + (10_000).to_bytes(4, "little")  # of PyInt8 another scale, which is no error
    cases = [
        (good, len(good), 0),
        (b"\xff" * 50, 0, 0),
        (b"\xff" * 50, 50, 1),
        (good, len(good) - 1, 1),
        (good, 3000, 1),
    ]
    cases += [(bad_place, len(good), 1)] if kind is codecs.PyThreshold else []
    for message, size, wrong in cases:
        room[: len(message)] = np.frombuffer(message, np.uint8)
        output, error = np.ones(100, np.float32), np.full(1, 7, np.int32)
        length = np.array([size], np.int32)
        program.decode(
            (0, 0), room.ctypes.data, 2000, length.ctypes.data, output.ctypes.data, 100, True, error.ctypes.data
        )
        assert error[0] == wrong, (message[:8], size)
        if size == 0:
            assert np.isnan(output).all()
        elif wrong:
            assert (output == 1).all()
        else:
            np.testing.assert_array_equal(output, 1 + _made(kind, **values).decode(good, 100))


class _Parts:
    """Parts of wrong classes."""

    @staticmethod
    def made(name: str, **parts: Any) -> type:
        right = {"encode": lambda self, values, state: values, "decode": lambda self, tensors, shape: tensors[0]}
        return type(name, (), {**right, **parts})


def _with_option(self: Any, ratio: float) -> None: ...


def _with_own_option(self: Any, error_feedback: bool = True) -> None: ...


def _sets_another(self: Any, values: torch.Tensor, state: EncodeState) -> torch.Tensor:
    state.momentum = values
    return values


_COMPLEX = {
    "encode": lambda self, values, state: values + 0j,
    "decode": lambda self, tensors, shape: tensors[0].real,
}
WRONG = [
    ("no_encode", {"encode": None}, r"has no function encode\(self, values, state\)"),
    ("no_default", {"__init__": _with_option}, "option ratio needs a default"),
    ("own_option", {"__init__": _with_own_option}, "error_feedback is HiPress' own"),
    ("residual", {"states": "residual"}, "HiPress keeps the residual itself"),
    ("number", {"encode": lambda self, values, state: 3}, "encode returned an object of type int"),
    ("complex", _COMPLEX, "a tensor of torch.complex64; the types that"),
    ("shape", {"decode": lambda self, tensors, shape: tensors[0][:1]}, r"decode returned a tensor of shape \(1,\)"),
    ("device", {"encode": lambda self, values, state: values.to("meta")}, "on meta for values on cpu"),
    ("undeclared", {"encode": _sets_another}, r"write states = \('momentum',\) in it"),
    (
        "raises",
        {"encode": lambda self, values, state: values[[10_000]]},
        r"encode raised IndexError: .*test_classes.py",
    ),
    ("LARGE", {}, "cannot be a codec's name"),
]


@pytest.mark.parametrize(("name", "parts", "sentence"), WRONG)
def test_a_wrong_class_is_refused_when_it_is_registered(name: str, parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        register_codec(_Parts.made(f"py_wrong_{name}", **parts), f"py_wrong_{name}")
    with pytest.raises(InvalidArgument, match="does not exist"):
        _core.create_codec(f"py_wrong_{name}".lower())


def test_lengths_that_depend_on_values_are_refused_with_the_remedy() -> None:
    def encode(self: Any, values: torch.Tensor, state: EncodeState) -> torch.Tensor:
        return values[values > 0]

    def decode(self: Any, tensors: Any, shape: torch.Size) -> torch.Tensor:
        return torch.zeros(shape)

    codec = _made(_Parts.made("py_any_length", encode=encode, decode=decode))
    with pytest.raises(InvalidArgument, match=r"has float32\[1000\], and in a trial it had .* needs max_bytes"):
        codec.encode(np.ones(1000, np.float32))
    short = _made(_Parts.made("py_too_long", encode=encode, decode=decode, max_bytes=lambda self, count: 3 * count))
    with pytest.raises(InvalidArgument, match=r"take 4000 bytes, and max_bytes\(1000\) is 3000"):
        short.encode(np.ones(1000, np.float32))


def test_another_class_of_the_same_name_is_refused() -> None:
    class PyInt8:
        def encode(self, values: torch.Tensor, state: EncodeState) -> torch.Tensor:
            return values

        def decode(self, tensors: Any, shape: torch.Size) -> torch.Tensor:
            return tensors[0]

    assert register_codec(codecs.PyInt8) == register_codec(codecs.PyInt8)
    with pytest.raises(InvalidArgument, match="pyint8 exists already and is another one"):
        register_codec(PyInt8)
    with pytest.raises(InvalidArgument, match="onebit exists already"):
        register_codec(PyInt8, "onebit")


def test_bits_do_not_depend_on_the_type_of_autocast() -> None:
    class PyProduct:
        error_feedback = False

        def encode(self, values: torch.Tensor, state: EncodeState) -> torch.Tensor:
            return torch.eye(len(values)) @ values

        def decode(self, tensors: Any, shape: torch.Size) -> torch.Tensor:
            return tensors[0]

    codec = _made(PyProduct)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        message = codec.encode(_values(50))
    assert message == codec.encode(_values(50))
