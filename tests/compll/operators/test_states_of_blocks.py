# SPDX-License-Identifier: Apache-2.0
"""States with one value for each block: their lengths, their meaning, and that all targets agree on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hipress.compll import Interpreter, compile_text
from hipress.errors import InvalidArgument
from tests.compll.operators.differential import same_on_all_targets
from tests.compll.programs import encoder, floats, normal
from tests.core.casync.blocks import limits_program

SIZES = (0, 1, 7, 255, 256, 257, 1023, 1024, 1025, 5000)

#: The mean of each block moves towards the block's greatest value, which the message has.
MOVING = """
void MovingEncode(float* gradient, uint8* compressed, state float mean[blocks(gradient.size, 256)]) {
    float* greatest = reduce_blocks(gradient, 0.0, max, 256);
    float* moved = map(mean, greatest, [&](float m, float g) -> float { return m / 2 + g; });
    mean = moved;
    compressed = concat(moved);
}
void MovingDecode(uint8* compressed, float* gradient) {
    extract(compressed, float mean[blocks(gradient.size, 256)]);
    gradient = map(range(gradient.size), spread(mean, 256), [&](int i, float m) -> float { return m; });
}
"""


@pytest.mark.parametrize("size", SIZES)
def test_a_state_has_one_value_for_each_block(size: int) -> None:
    run = Interpreter(compile_text(MOVING))
    state, expected = run.new_state(size), np.zeros(-(-size // 256), np.float32)
    assert state["mean"].shape == expected.shape
    for step in range(3):
        gradient = normal(size, seed=step)
        blocks = np.split(gradient, range(256, size, 256)) if size else []
        expected = expected / np.float32(2) + floats(*(max(0.0, block.max()) for block in blocks))
        assert run.encode(gradient, state) == expected.tobytes(), "decode gets the value after the step"
        assert state["mean"].tobytes() == expected.tobytes()


def test_a_new_value_that_is_not_finite_leaves_all_old_values() -> None:
    body = "mean = map(mean, [&](float m) -> float { return (m + 1) * 3e38; }); compressed = concat(gradient[0]);"
    run = encoder(body, "state float mean[blocks(gradient.size, 4)]")
    state = run.new_state(9)
    assert len(run.encode(floats(*range(9)), state)) == 4
    assert state["mean"].tolist() == floats(3e38, 3e38, 3e38).tolist()
    assert run.encode(floats(*range(9)), state) == b""
    assert state["mean"].tolist() == floats(3e38, 3e38, 3e38).tolist()


def test_without_states_the_program_reads_zeros() -> None:
    run, gradient = Interpreter(compile_text(MOVING)), normal(700)
    assert run.encode(gradient, None) == run.encode(gradient, run.new_state(700))


def test_a_state_of_another_length_is_refused() -> None:
    run = Interpreter(compile_text(MOVING))
    with pytest.raises(InvalidArgument, match="state 'mean' must have 3 elements"):
        run.encode(normal(700), {"mean": np.zeros(700, np.float32)})


@pytest.mark.slow
def test_all_targets_agree(tmp_path: Path) -> None:
    same_on_all_targets(MOVING, tmp_path)


@pytest.mark.slow
def test_all_targets_agree_at_the_borders_of_blocks(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "emit" / "cpu" / "programs" / "memories.cll").read_text()
    # A process has one codec of a name, and test_emitted.py loads this program with code for each instruction set.
    same_on_all_targets(text.replace("Memories", "Borders"), tmp_path, SIZES[1:])


@pytest.mark.slow
def test_all_targets_agree_on_statistics_that_read_them(tmp_path: Path) -> None:
    same_on_all_targets(limits_program.SUMMED, tmp_path, SIZES[1:])
