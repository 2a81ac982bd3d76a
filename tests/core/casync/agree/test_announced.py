# SPDX-License-Identifier: Apache-2.0
"""Named calls do not wait for rank 0: their operations start when it has told the tensors' numbers."""

from __future__ import annotations

import time

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument, Mismatch, NotInitialized, PeerLost, Timeout
from tests.core.casync.agree.held_answers import two_ranks
from tests.core.casync.engine_world import outcomes, run_ranks, spec

COUNT = 161


def burst(engine: _core.Engine, codec: str = "none", count: int = COUNT) -> list[tuple[int, np.ndarray]]:
    """Starts averages of many tensors; returns their operations and results."""
    started = []
    for number in range(count):
        values = np.full(number % 7 + 64, engine.rank + number, np.float32)
        tensor = engine.announce(spec(f"w{number}", values, op="average", codec=codec, transient=True))
        started.append((engine.submit(tensor, values, values), values))
    return started


def finished(engine: _core.Engine, started: list[tuple[int, np.ndarray]]) -> list[float]:
    for operation, _ in started:
        engine.wait(operation)
    return [float(values[0]) for _, values in started]


def test_a_burst_of_calls_asks_for_all_numbers_before_an_answer_comes() -> None:
    with two_ranks() as ranks:
        ranks.answers.hold()
        started = ranks.start(1, burst).result(10.0)  # returns though no call has an answer
        assert not any(ranks.engines[1].poll(operation) for operation, _ in started)
        other = ranks.start(0, lambda engine: finished(engine, burst(engine)))
        ranks.answers.release()
        assert finished(ranks.engines[1], started) == [number + 0.5 for number in range(COUNT)]
        assert other.result(10.0) == [number + 0.5 for number in range(COUNT)]


def test_a_tensor_that_travels_as_linked_tensors_asks_once() -> None:
    def body(engine: _core.Engine) -> float:
        values = np.full((64, 64), engine.rank, np.float32)
        how = {"op": "average", "codec": "int8_shared", "transient": True}
        tensor = engine.announce(spec("w", values, **how))
        engine.wait(engine.submit(tensor, values, values))
        return float(values.mean())

    with two_ranks() as ranks:
        assert ranks.run(body) == pytest.approx([0.5, 0.5], abs=0.01)
        assert ranks.answers.asked() == 1


def test_a_list_asks_once_for_its_tensors_and_once_for_their_linked_tensors() -> None:
    def body(engine: _core.Engine) -> list[int]:
        values = np.zeros((64, 64), np.float32)
        how = [{}, {"group": "g"}, {"group": "g"}, {"codec": "powersgd"}, {"codec": "int8_shared"}, {"codec": "onebit"}]
        return engine.agree("list", [spec(f"w{number}", values, **each) for number, each in enumerate(how)])

    with two_ranks() as ranks:
        own, other = ranks.run(body)
        assert own == other
        assert ranks.answers.asked() == 2


def test_rows_are_gathered_without_a_wait_for_rank_0() -> None:
    def start(engine: _core.Engine) -> _core.Blocks:
        rows = np.full((engine.rank + 1, 2), engine.rank, np.int32)
        described = _core.TensorSpec(
            "x", collective="allgather", dtype="int32", count=0, shape="[*, 2]", transient=True
        )
        return _core.move_blocks(engine, described, rows, 2, [len(rows)])

    with two_ranks() as ranks:
        ranks.answers.hold()
        blocks = ranks.start(1, start).result(10.0)
        other = ranks.start(0, lambda engine: start(engine).wait())
        ranks.answers.release()
        for moved, rows in (blocks.wait(), other.result(10.0)):
            assert rows == [1, 2]
            assert moved.view(np.int32).tolist() == [0, 0, 1, 1, 1, 1]


def test_a_rank_without_an_answer_says_so_at_its_deadline() -> None:
    with two_ranks(timeout=1.0) as ranks:
        ranks.answers.hold()
        (started,) = burst(ranks.engines[1], count=1)
        with pytest.raises(Timeout, match=r"tensor 'w0'.*rank 1 has no answer from rank 0, which it asked for the ten"):
            ranks.engines[1].wait(started[0])


def test_a_rank_that_loses_rank_0_before_its_answer_does_not_wait() -> None:
    with two_ranks() as ranks:
        ranks.answers.hold()
        started = burst(ranks.engines[1], count=3)
        ranks.answers.cut()
        begun = time.monotonic()
        for operation, _ in started:
            with pytest.raises(PeerLost, match="rank 0 was lost"):
                ranks.engines[1].wait(operation)
        assert time.monotonic() - begun < 10.0


def test_a_shutdown_ends_calls_that_have_no_answer() -> None:
    with two_ranks() as ranks:
        ranks.answers.hold()
        started = burst(ranks.engines[1], count=3)
        ended = ranks.start(1, lambda engine: engine.shutdown(0.0))
        ranks.answers.release()
        ended.result(10.0)
        for operation, _ in started:
            with pytest.raises(NotInitialized):
                ranks.engines[1].wait(operation)


def differing(engine: _core.Engine, codec: str = "none") -> list[Exception | None]:
    """Three tensors, of which the ranks differ in the second one."""
    ended: list[Exception | None] = []
    for name in "abc":
        values = np.ones((64, 64 + (name == "b") * engine.rank), np.float32)
        try:
            tensor = engine.announce(spec(name, values, transient=True, codec=codec))
            engine.wait(engine.submit(tensor, values, values))
            ended.append(None)
        except Mismatch as error:
            ended.append(error)
    return ended


@pytest.mark.parametrize("codec", ["none", "onebit", "powersgd", "int8_shared"])
def test_ranks_that_differ_in_one_call_go_on_with_the_others(codec: str) -> None:
    with two_ranks() as ranks:
        for first, second, third in ranks.run(lambda engine: differing(engine, codec)):
            assert first is third is None
            assert isinstance(second, Mismatch)
            assert "tensor 'b" in str(second)
    for first, second, third in run_ranks(3, lambda engine: differing(engine, codec)):
        assert first is third is None
        assert isinstance(second, Mismatch)


def test_bad_options_are_refused_within_the_call() -> None:
    values = np.ones(64, np.float32)
    for outcome in outcomes(2, lambda engine: engine.announce(spec("w", values, codec="no such codec"))):
        assert isinstance(outcome, InvalidArgument)


def test_calls_of_one_name_are_matched_by_their_order() -> None:
    def body(engine: _core.Engine) -> list[float]:
        started = []
        for step in range(40):
            values = np.full(step + 1, step * (engine.rank + 1), np.float32)
            tensor = engine.announce(spec("w", values, op="sum", transient=True))
            started.append((engine.submit(tensor, values, values), values))
        return finished(engine, started)

    with two_ranks() as ranks:
        assert ranks.run(body) == [[3.0 * step for step in range(40)]] * 2


def test_without_pipelining_the_order_of_calls_is_kept() -> None:
    assert (
        run_ranks(2, lambda engine: finished(engine, burst(engine, count=20)), options={"pipelining": False})
        == [[number + 0.5 for number in range(20)]] * 2
    )


def test_random_codecs_draw_the_same_values_on_all_ranks() -> None:
    def body(engine: _core.Engine) -> bytes:
        values = np.linspace(-1, 1, 5000, dtype=np.float32)
        tensor = engine.announce(spec("w", values, op="average", codec="terngrad", transient=True))
        engine.wait(engine.submit(tensor, values, values))
        return values.tobytes()

    with two_ranks() as ranks:
        own, other = ranks.run(body)
        assert own == other
