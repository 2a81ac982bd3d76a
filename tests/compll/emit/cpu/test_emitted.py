# SPDX-License-Identifier: Apache-2.0
"""The C++ emitter gives the interpreter's bytes for programs that use language features which no built-in codec
uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hipress
from hipress import _core
from hipress.compll import Interpreter, compile_file
from hipress.compll.build.codec import read_codec, write_library
from hipress.errors import CorruptPayload
from tests.core.conftest import at_each_level
from tests.tiers import thorough, usually

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "branches": [{}, {"class": "false"}, {"limit": 0}],
    "orders": [{}],
    "numbers": [{}, {"width": 1}, {"width": 8, "factor": -3}],
    "blockwise": [{}, {"block": 1}, {"block": 4097, "coarse": 1, "residual_factor": 0.3}],
    "narrow": [
        {},
        {"flip": "true", "block": 1, "error_feedback": "true", "residual_factor": 0.3},
        {"bias": 127, "error_feedback": "false", "most": 65535, "block": 5000},
    ],
    "widths": [{}, {"bits": 1, "block": 100, "most": 5}, {"bits": 7}],
    "tables": [{}],
    "lookups": [{}, {"residual_factor": 0.3}],
    "transforms": [{"residual_factor": 0.3, "gradient_factor": 0.7}],
    "passes": [{"residual_factor": 0.3, "gradient_factor": 0.7}],
    "prefixes": [{}],
    "memories": [{}, {"residual_factor": 0.3, "gradient_factor": 0.7}],
    "elements": [{}, {"block": 1, "middle": 0}, {"block": 5000, "residual_factor": 0}],
    "selections": [
        {},
        {"block": 1},
        {"block": 5000, "count": 64},
        {"block": 3000, "count": 900, "residual_factor": 0.3},
    ],
}
#: Programs that are compiled for each instruction-set level, which takes three times as long. They have loops of every
#: kind: over elements, blocks, bits and a sort's order. The others are compiled for this processor's level, as a
#: program is that is loaded from its text. The built-in codecs and core/ops are tested at all levels.
EVERY_LEVEL = ("branches", "orders", "blockwise", "elements")
CASES = [(name, options) for name, variants in VARIANTS.items() for options in variants]
#: A program that is compiled once has its variants at once; these programs have what the others have.
USUAL = [case for case in CASES if case[0] in ("branches", "orders", "narrow", "transforms", "prefixes", "selections")]


#: The numbers of elements that are compared with gradients of every kind; the others with those of FEW, but for
#: `make test-thorough`.
EVERY_KIND = (1, 48, 4097)
FEW = ("normal", "ties", "not finite")


def inputs(count: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(count)
    normal = generator.standard_normal(count).astype(np.float32)
    spoilt = normal.copy()
    spoilt[-1:] = np.inf
    return {
        "normal": normal,
        "ties": generator.integers(-2, 3, count).astype(np.float32),
        "zero": np.zeros(count, np.float32),
        "tiny": normal * np.float32(1e-39),
        "signed zeros": np.copysign(np.float32(0), normal),
        "large": normal * np.float32(1e30),
        "not finite": spoilt,
    }


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("HIPRESS_CACHE", str(folder))
        yield folder


@pytest.mark.parametrize("whole", [False, thorough(True)], ids=["covering", "whole"])
@pytest.mark.parametrize(("name", "options"), usually(USUAL, CASES))
def test_bytes_states_and_values_are_the_interpreters(
    name: str, options: dict[str, Any], whole: bool, cache: Path
) -> None:
    file = PROGRAMS / f"{name}.cll"
    every_level = name in EVERY_LEVEL
    assert hipress.load_codec(write_library(read_codec(file), cache) if every_level else file) == name
    levels = _core.isa_levels() if every_level else [_core.isa_level()]
    codec = _core.create_codec(f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})")
    reference = Interpreter(compile_file(file), **options)
    # From 65,536 elements on, a selection first takes a sample.
    for count in (0, 1, 7, 48, 1000, 4097, 9000, *((70_001,) if name == "orders" else ())):
        assert codec.max_encoded_bytes(count) == reference.max_encoded_bytes(count)
        for kind, gradient in inputs(count).items():
            if not whole and count not in EVERY_KIND and kind not in FEW:
                continue
            expected = reference.new_state(count)
            kept = {level: reference.new_state(count) for level in levels}
            for step in range(2):
                numbers = {"seed": 5, "step": step, "tensor": 3, "first_element": 2, "scale": 1.5}
                message = reference.encode(gradient, expected, **numbers)
                decoded = _decoded(reference, message, count)
                for level in at_each_level(levels):
                    where = (name, options, count, kind, step, level)
                    states = kept[level]
                    assert codec.encode(gradient, states, **numbers) == message, where
                    for state, values in expected.items():
                        assert states[state].tobytes() == values.tobytes(), (*where, state)
                    for ours, theirs in zip(_decoded(codec, message, count), decoded, strict=True):
                        np.testing.assert_array_equal(ours, theirs, str(where))
    same_refusals(codec, reference)


def same_refusals(codec: Any, reference: Interpreter) -> None:
    """Checks that the codec refuses the cut, lengthened and changed messages that the interpreter refuses."""
    random, refused = np.random.default_rng(1), 0
    for count in (1, 13):
        message = reference.encode(random.standard_normal(count).astype(np.float32))
        wrong = [
            message[:-1],
            message[: len(message) // 2],
            message + b"\0",
            message + bytes(4),
            b"\xff" * len(message),
        ]
        for _ in range(15):
            changed = bytearray(message)
            changed[int(random.integers(len(message)))] ^= int(random.integers(1, 256))
            wrong.append(bytes(changed))
        for payload in filter(None, wrong):
            try:
                expected = _decoded(reference, payload, count)
            except CorruptPayload:
                refused += 1
                with pytest.raises(CorruptPayload):
                    _decoded(codec, payload, count)
            else:
                np.testing.assert_array_equal(_decoded(codec, payload, count), expected, str(payload))
    assert refused


def _decoded(codec: Any, message: bytes, count: int) -> list[np.ndarray]:
    """The message's values, and their sums with ones."""
    outputs = [np.ones(count, np.float32), np.ones(count, np.float32)]
    for output, accumulate in zip(outputs, (False, True), strict=True):
        codec.decode_into(message, output, accumulate=accumulate)
    return outputs
