# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's codec operators give the core's bytes and return the new states, eagerly and in a tf.function."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from hipress._library import load_core
from hipress.tensorflow import codec_operators as codecs

CODECS = [codec for codec in load_core().describe_codecs() if codec["id"] < 1024 and codec["name"] != "none"]
VALUES = np.random.default_rng(0).standard_normal(5001, np.float32)


@pytest.mark.parametrize("traced", [True, False], ids=["tf.function", "eager"])
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec["name"])
def test_messages_are_the_cores_and_states_come_out(codec: dict[str, object], traced: bool) -> None:
    name = str(codec["name"])
    states = {state: tf.zeros(VALUES.size) for state in codec["states"]}  # type: ignore[attr-defined]
    options = "error_feedback=true" if states else ""

    def encode(values: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]:
        message, after = codecs.encode(name, values, states, options=options, seed=1, step=2, tensor=3)
        return message, after, codecs.decode(name, message, tf.size(values))

    message, after, decoded = (tf.function(encode) if traced else encode)(tf.constant(VALUES))
    expected = load_core().create_codec(name).encode(VALUES, seed=1, step=2, tensor=3)
    assert message.numpy().tobytes() == expected
    if "residual" in after:
        held = {key: value.numpy() for key, value in after.items()}
        np.testing.assert_allclose(decoded.numpy() + held["residual"], VALUES, atol=1e-5)
    sums = codecs.decode_accumulate(name, message, tf.constant(VALUES))
    np.testing.assert_allclose(sums.numpy(), VALUES + decoded.numpy(), atol=1e-6)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(hp.InvalidArgument, match="codec 'zip' does not exist"):
        codecs.encode("zip", VALUES)
    with pytest.raises(hp.InvalidArgument, match="no state 'momentum'"):
        codecs.encode("onebit", VALUES, {"momentum": VALUES})
    with pytest.raises(hp.CorruptPayload):
        codecs.decode("onebit", tf.zeros(3, tf.uint8), 5001)
    with pytest.raises(hp.InvalidArgument, match="threshold"):
        codecs.encode("tbq", VALUES, options="threshold=-1")
