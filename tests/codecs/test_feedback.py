# SPDX-License-Identifier: Apache-2.0
"""No part of a gradient is lost: the states keep the part that a codec does not send."""

from __future__ import annotations

import numpy as np

from hipress import _core
from tests.cases import each
from tests.codecs.builtin import SPARSE, TEXTS, Builtin, Floats, builtin, inputs, new_states, normal, option, same
from tests.core.codec_reference import SMALLEST

COUNTS = [1, 7, 17, 1024, 1025, 4097]
DENSE = [
    *("onebit", "onebit(block=100, residual_factor=0.9, gradient_factor=0.3)", "tbq", "tbq(threshold=0.3)"),
    *("int8(error_feedback=true)", "int8(stochastic=true, error_feedback=true)", "int4", "int4(block=100)"),
    *("fp8_e4m3(block=100, stochastic=true, error_feedback=true)", "fp8_e5m2(error_feedback=true)"),
    *("fp4_e2m1", "fp4_e2m1(stochastic=true, power_of_two=true)", "efsignsgd", "efsignsgd(block=100)"),
    "u8bit(block=100, error_feedback=true)",
    "dynamiq(bits=3.3, block=32, error_feedback=true)",
    *("thc", "thc(levels=1, reach=1.2)", "thc(levels=31, stochastic=true)"),
    "qsgd(levels=7, block=100, error_feedback=true, residual_factor=0.3)",
    "natural(stochastic=false, error_feedback=true)",
]


def entering(of: Builtin, gradient: Floats, residual: Floats) -> tuple[Floats, Floats]:
    """The gradient and the old residual, each times its factor, for an encode with scale 0.5."""
    scale = np.float32(0.5) * np.float32(option(of, "gradient_factor"))
    with np.errstate(all="ignore"):
        return scale * gradient, np.float32(option(of, "residual_factor")) * residual


@each("text", DENSE)
def test_gradient_and_old_residual_are_decoded_and_new_residual(text: str, isa: str) -> None:
    """Equality holds up to rounding: the decoded value, or a mean of many values, is a rounding of the value that
    encode subtracts."""
    codec = builtin(text).codec
    for count in COUNTS:
        for name, values in inputs(count).items():
            states = new_states(builtin(text), count)
            for step in range(3):
                gradient, residual = entering(builtin(text), values, states["residual"])
                with np.errstate(all="ignore"):
                    corrected = gradient + residual
                payload = codec.encode(values, states, scale=0.5, step=step)
                if not payload:
                    assert not np.isfinite(corrected).all(), (count, name)
                    break
                decoded = codec.decode(payload, count)
                largest = np.maximum(np.abs(corrected), np.abs(decoded)).astype(np.float64)
                error = np.abs(decoded.astype(np.float64) + states["residual"] - corrected)
                assert (error <= 1e-6 * largest + SMALLEST).all(), (count, name, step)


@each("text", [text for text in TEXTS if text.split("(")[0] in SPARSE])
def test_every_value_is_sent_whole_or_kept_whole(text: str, isa: str) -> None:
    """The equality is exact: value = factor·residual + velocity. graddrop's velocity is the gradient; dgc's velocity is
    momentum·(old velocity) + gradient. A sent element leaves zeros in all states; for other elements the states keep
    the computed values."""
    of = builtin(text)
    for count in COUNTS:
        for name, values in inputs(count).items():
            if not np.isfinite(values).all() or np.abs(values).max() > 1e38:
                continue  # test_not_finite.py tests values that are not finite
            states = new_states(of, count)
            for step in range(3):
                speed, residual = entering(of, values, states["residual"])
                if of.name == "dgc":
                    speed = np.float32(option(of, "momentum")) * states["velocity"] + speed
                value = residual + speed
                payload = of.codec.encode(values, states, scale=0.5, step=step)
                sent = np.zeros(count, bool)
                (number,) = np.frombuffer(payload[:4], np.int32)
                sent[np.frombuffer(payload[4 : 4 + 4 * number], np.int32)] = True
                where = (count, name, step)
                assert same(of.codec.decode(payload, count), np.where(sent, value, np.float32(0))), where
                assert same(states["residual"], np.where(sent, np.float32(0), value)), where
                if of.name == "dgc":
                    assert same(states["velocity"], np.where(sent, np.float32(0), speed)), where


@each("text", [*DENSE, "graddrop", "graddrop(ratio=0.05)", "topk", "threshold", "randomk"])
def test_what_is_held_back_comes_out_later(text: str, isa: str) -> None:
    """The sum of 20 decoded gradients and the last residual is the sum of the 20 gradients, each with its factor, but
    for the parts of residuals that a factor below 1 forgets."""
    codec, states = builtin(text).codec, new_states(builtin(text), 1000)
    forgets, factor = 1 - np.float32(option(builtin(text), "residual_factor")), codec.gradient_factor
    sent, wanted, size = np.zeros(1000), np.zeros(1000), np.zeros(1000)
    for step in range(20):
        gradient = normal(1000, step)
        wanted += factor * gradient - forgets * states["residual"]
        decoded = codec.decode(codec.encode(gradient, states, step=step), 1000)
        sent += decoded
        size += np.abs(decoded) + np.abs(states["residual"])
    assert (np.abs(sent + states["residual"] - wanted) <= 1e-6 * size).all()


@each("text", [text for text in TEXTS if _core.create_codec(text).states])
def test_without_states_zeros_are_read(text: str) -> None:
    of, gradient = builtin(text), normal(1025)
    assert of.codec.encode(gradient) == of.codec.encode(gradient, new_states(of, 1025))


def test_onebit_of_huge_and_tiny_values_has_a_mean(isa: str) -> None:
    largest = np.float32(np.finfo(np.float32).max)
    codec = builtin("onebit(block=16777216)").codec
    for value in (largest, -largest, np.float32(SMALLEST), np.float32(-7 * SMALLEST)):
        values = np.full(300_001, value, np.float32)
        decoded = codec.decode(codec.encode(values), len(values))
        assert np.isfinite(decoded).all()
        # A mean is a sum of fractions of the values, and a fraction of the smallest number is zero.
        if abs(value) == largest:
            np.testing.assert_allclose(decoded, values, rtol=1e-4)
