# SPDX-License-Identifier: Apache-2.0
"""The engine with residual_factor and gradient_factor equals a replay in NumPy; all gradients have the same factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.compll import Interpreter, compile_builtin
from hipress.errors import Mismatch
from tests.core.casync.engine_world import gradients, identical, run_ranks, spec

STEPS, COUNT = 6, 4096


def test_two_ranks_over_ps_equal_a_replay() -> None:
    """The owner merges its gradient unencoded, and encodes the sum with the residual's factor only."""
    text = "onebit(block=100, residual_factor=0.5, gradient_factor=0.7)"
    values = [gradients(2, COUNT, seed=step) for step in range(STEPS)]

    def body(engine: _core.Engine) -> tuple[list[Any], bool, Any]:
        (tensor,) = engine.declare([spec("w", values[0][0], codec=text, topology="ps", partitions=1)])
        outputs = []
        for step in range(STEPS):
            outputs.append(values[step][engine.rank].copy())
            engine.wait(engine.submit(tensor, outputs[-1], outputs[-1]))
        owns = ("w", "aggregator", "residual") in engine.states() and engine.state("w", "aggregator", "residual").any()
        return outputs, bool(owns), engine.state("w", "aggregator" if owns else "worker", "residual").copy()

    by_rank = run_ranks(2, body)
    (owner,) = (rank for rank, (_, owns, _) in enumerate(by_rank) if owns)
    codec = Interpreter(compile_builtin("onebit"), block=100, residual_factor=0.5, gradient_factor=0.7)
    merged = codec.for_aggregate()
    worker, aggregator = codec.new_state(COUNT), merged.new_state(COUNT)
    for step in range(STEPS):
        parts = [values[step][owner] * np.float32(0.7)] * 2
        parts[1 - owner] = codec.decode(codec.encode(values[step][1 - owner], worker), COUNT)
        expected = merged.decode(merged.encode(parts[0] + parts[1], aggregator, scale=0.5), COUNT)
        for rank in (0, 1):
            np.testing.assert_array_equal(by_rank[rank][0][step], expected, f"step {step}")
    np.testing.assert_array_equal(by_rank[owner][2], aggregator["residual"])
    np.testing.assert_array_equal(by_rank[1 - owner][2], worker["residual"])


@pytest.mark.parametrize("topology", ["ps", "ring", "butterfly", "allgather", "hierarchical"])
def test_every_gradient_has_the_factor_once(topology: str) -> None:
    """Rounding to 8 bits is fine enough to show a gradient that has the factor twice, or not at all."""
    world_size = 4
    values = gradients(world_size, COUNT)

    def body(engine: _core.Engine) -> Any:
        codec = "int8(block=16, error_feedback=true, gradient_factor=0.5)"
        (tensor,) = engine.declare([spec("w", values[0], codec=codec, topology=topology, prescale=2.0)])
        output = values[engine.rank].copy()
        engine.wait(engine.submit(tensor, output, output))
        return output

    by_rank = run_ranks(world_size, body, options={"hosts": [0, 0, 1, 1]})
    assert identical(by_rank)
    np.testing.assert_allclose(by_rank[0], np.mean(values, axis=0), atol=0.05)


def test_levels_that_ranks_add_have_the_factor() -> None:
    values = gradients(2, COUNT)

    def body(engine: _core.Engine) -> Any:
        codec = "int8_shared(levels=60, block=16, gradient_factor=0.5)"
        (tensor,) = engine.declare([spec("w", values[0], codec=codec, partitions=1)])
        output = values[engine.rank].copy()
        engine.wait(engine.submit(tensor, output, output))
        return output

    by_rank = run_ranks(2, body)
    assert identical(by_rank)
    np.testing.assert_allclose(by_rank[0], 0.5 * np.mean(values, axis=0), atol=0.05)


def test_ranks_with_other_factors_do_not_agree() -> None:
    def body(engine: _core.Engine) -> None:
        codec = f"onebit(residual_factor=0.{5 + engine.rank})"
        with pytest.raises(Mismatch, match=r"residual_factor=0\.[56]"):
            engine.agree("list", [spec("w", np.ones(COUNT, np.float32), codec=codec)])

    run_ranks(2, body)


def test_a_residual_is_converted_to_another_factor_of_gradients() -> None:
    """It stands for a part of the gradients, as it does with another prescale."""
    (values,) = gradients(1, COUNT)

    def body(engine: _core.Engine) -> tuple[Any, Any]:
        handles = engine.agree("list", [spec("w", values, codec="tbq(threshold=9, gradient_factor=0.5)", partitions=1)])
        engine.wait(engine.submit(handles[0], values, values.copy()))
        role = next(each for each in ("worker", "aggregator") if engine.state("w", each, "residual").any())
        before = engine.state("w", role, "residual").copy()
        ((_, unsent),) = engine.agree_anew("more", handles, [spec("w", values, codec="tbq(threshold=9)", partitions=1)])
        assert unsent is None
        return before, engine.state("w", role, "residual").copy()

    for before, after in run_ranks(2, body):
        np.testing.assert_array_equal(after, 2 * before)
