# SPDX-License-Identifier: Apache-2.0
"""MXNet's codec operators give the core's bytes and states, eagerly and in a symbol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress  # noqa: E402
from hipress._library import load_core  # noqa: E402
from hipress.mxnet import codec_operators  # noqa: E402

CORE = load_core()
#: The states that each codec's operator takes. The codec does not use a state that its options leave out.
STATES = {codec["name"]: codec["states"] for codec in CORE.describe_codecs()}
VALUES = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)


def _step(number: int) -> Any:
    return mx.nd.array([number], dtype=np.int64)


@pytest.mark.parametrize("name", STATES)
def test_operators_give_the_cores_bytes_and_states(name: str) -> None:
    codec = CORE.create_codec(name)
    states = {state: np.zeros(VALUES.size, dtype=np.float32) for state in codec.states}
    arrays = {state: mx.nd.zeros(VALUES.shape) for state in STATES[name]}
    for step in range(3):
        expected = codec.encode(VALUES.reshape(-1), states, seed=5, step=step, tensor=2, scale=0.5)
        encode = getattr(mx.nd, f"hipress_{name}_encode")
        message, length = encode(mx.nd.array(VALUES), *arrays.values(), _step(step), seed=5, tensor=2, scale=0.5)
        assert message.shape == (codec.max_encoded_bytes(VALUES.size),)
        assert message.asnumpy()[: int(length.asscalar())].tobytes() == expected
        for state, values in states.items():
            np.testing.assert_array_equal(arrays[state].asnumpy().reshape(-1), values)
        decoded = getattr(mx.nd, f"hipress_{name}_decode")(message, length, count=VALUES.size)
        np.testing.assert_array_equal(decoded.asnumpy(), codec.decode(expected, VALUES.size))
        sums = mx.nd.ones(VALUES.size)
        getattr(mx.nd, f"hipress_{name}_decode_accumulate")(message, length, sums, out=sums)
        np.testing.assert_array_equal(sums.asnumpy(), 1 + codec.decode(expected, VALUES.size))


def test_options_are_the_operators() -> None:
    expected = CORE.create_codec("tbq(threshold=0.5, error_feedback=false)").encode(VALUES.reshape(-1), None)
    options = "threshold=0.5, error_feedback=false"
    residual = mx.nd.ones(VALUES.shape)
    message, length = mx.nd.hipress_tbq_encode(mx.nd.array(VALUES), residual, _step(0), options=options)
    assert message.asnumpy()[: int(length.asscalar())].tobytes() == expected
    assert (residual.asnumpy() == 1).all()


def test_operators_work_in_a_symbol() -> None:
    gradient, residual, step = mx.sym.var("gradient"), mx.sym.var("residual"), mx.sym.var("step", dtype=np.int64)
    encoded = mx.sym.hipress_onebit_encode(gradient, residual, step)
    decoded = mx.sym.hipress_onebit_decode(encoded[0], encoded[1], count=VALUES.size)
    states = {"residual": mx.nd.zeros(VALUES.shape)}  # auxiliary arrays: operators write them
    arguments = {"gradient": mx.nd.array(VALUES), "step": _step(0)}
    (output,) = decoded.bind(mx.cpu(), arguments, grad_req="null", aux_states=states).forward()
    codec = CORE.create_codec("onebit")
    message = codec.encode(VALUES.reshape(-1), {"residual": np.zeros(VALUES.size, dtype=np.float32)})
    np.testing.assert_array_equal(output.asnumpy(), codec.decode(message, VALUES.size))


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(mx.MXNetError, match="treshold"):
        mx.nd.hipress_tbq_encode(mx.nd.ones(4), mx.nd.zeros(4), _step(0), options="treshold=1").wait_to_read()


def test_a_codec_that_does_not_exist() -> None:
    with pytest.raises(hipress.InvalidArgument, match="'nothing' does not exist"):
        codec_operators.register("nothing")


def test_a_codec_loaded_later_gets_its_operators() -> None:
    for text in ("adacomp", "blockquant4"):  # loading the library again adds new operators
        name = hipress.load_codec(str(Path(__file__).parents[2] / "examples" / "compll" / f"{text}.cll"))
        codec_operators.register(name)
        assert hasattr(mx.nd, f"hipress_{name}_encode")
    codec = CORE.create_codec(name)
    states = [mx.nd.zeros(VALUES.shape) for _ in codec.states]
    message, length = getattr(mx.nd, f"hipress_{name}_encode")(mx.nd.array(VALUES), *states, _step(0))
    expected = codec.encode(VALUES.reshape(-1), {s: np.zeros(VALUES.size, dtype=np.float32) for s in codec.states})
    assert message.asnumpy()[: int(length.asscalar())].tobytes() == expected
