# SPDX-License-Identifier: Apache-2.0
"""States that follow a changed loss scale: training with scaled gradients is training with plain ones, to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument
from tests.core.casync.device_world import Place, simulated
from tests.core.casync.engine_world import run_ranks, spec

Floats = NDArray[np.float32]
WORLD = 2
COUNT = 5 * 1024
#: Powers of two, as torch's GradScaler has them after some overflows.
SCALES = [65536.0, 65536.0, 512.0, 512.0, 1024.0]
#: Codecs whose messages for the double gradient are those for the gradient, doubled.
CODECS = ["onebit", "topk(ratio=0.1)", "dgc(ratio=0.1)", "int4", "powersgd", "int8_shared(error_feedback=true)"]


def run(places: Sequence[_core.Device | None], codecs: Sequence[str], scales: Sequence[float]) -> list[list[Floats]]:
    """By rank: the unscaled results of every codec in every step."""

    def body(engine: _core.Engine) -> list[Floats]:
        place = Place(engine, places[engine.rank])
        like = np.empty(COUNT, np.float32)
        tensors = []
        for codec in codecs:
            options: Any = {"shape": "[64, 80]", "codec": codec, "partitions": 0 if codec == "powersgd" else 5}
            tensors += engine.declare(
                [_core.TensorSpec(codec, dtype="float32", count=COUNT, device=place.device, **options)]
            )
        unit, results = 1.0, []
        for step, scale in enumerate(scales):
            engine.multiply_states(tensors, scale / unit)
            unit = scale
            values = np.random.default_rng([engine.rank, step]).standard_normal(COUNT).astype(np.float32)
            started = [place.start(tensor, values * np.float32(scale), like) for tensor in tensors]
            for operation in started:
                result = place.finish(operation)
                assert result is not None
                results.append(result / np.float32(scale))
        return results

    return run_ranks(WORLD, body)


@pytest.mark.parametrize("on_device", [False, True])
def test_scaled_gradients_give_the_results_of_plain_ones(on_device: bool) -> None:
    places = simulated(WORLD) if on_device else [None] * WORLD
    codecs = [codec for codec in CODECS if not on_device or codec.startswith(("onebit", "topk", "dgc", "int4"))]
    scaled, plain = run(places, codecs, SCALES), run(places, codecs, [1.0] * len(SCALES))
    for theirs, ours in zip(scaled, plain, strict=True):
        for place, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            assert one.tobytes() == other.tobytes(), (codecs[place % len(codecs)], place // len(codecs))


def test_the_states_of_a_group_follow_once() -> None:
    """The members of a planned group travel as one tensor, which has their states."""
    names = ["a", "b"]

    def body(engine: _core.Engine) -> bytes:
        values = np.random.default_rng(engine.rank).standard_normal(COUNT).astype(np.float32)
        tensors = engine.agree("all", [spec(name, values, codec="onebit", group="g") for name in names])
        for operation in [engine.submit(tensor, values, values.copy()) for tensor in tensors]:
            engine.wait(operation)
        kept = [engine.read_state(tensor, "residual") for tensor in tensors]
        engine.multiply_states(tensors, 0.5)
        halved = [engine.read_state(tensor, "residual") for tensor in tensors]
        assert all(each.any() for each in kept)
        assert all((one == 0.5 * other).all() for one, other in zip(halved, kept, strict=True))
        return b""

    run_ranks(WORLD, body)


def test_a_tensor_in_flight_is_refused() -> None:
    def body(engine: _core.Engine) -> None:
        values = np.ones(COUNT, np.float32)
        (tensor,) = engine.declare([spec("w", values, codec="onebit")])
        if engine.rank == 0:
            operation = engine.submit(tensor, values, values)
            with pytest.raises(InvalidArgument, match="between steps only"):
                engine.multiply_states([tensor], 2.0)
            engine.allgather("refused", b"")
        else:
            engine.allgather("refused", b"")
            operation = engine.submit(tensor, values, values)
        engine.wait(operation)

    run_ranks(WORLD, body)
