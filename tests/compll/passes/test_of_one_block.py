# SPDX-License-Identifier: Apache-2.0
"""What follows a transform of blocks shares its pass over memory, and then the transform needs memory for one block."""

from __future__ import annotations

import pytest

from hipress.compll import compile_builtin, compile_text, ir
from hipress.compll.passes import plan, summed
from hipress.compll.passes.fuse import fuse
from hipress.compll.passes.of_one_block import of_one_block


def loops_and_vectors(function: ir.Function) -> tuple[int, set[str]]:
    """The number of passes over the gradient, and the vectors of which one block is in memory."""
    planned, vectors = fuse(function)
    loops = [step for step in planned.steps if isinstance(step, plan.Loop)]
    return sum(loop.length == "gradient.size" for loop in loops), of_one_block(vectors, planned.steps)


def encode(body: str) -> tuple[int, set[str]]:
    signature = "void XEncode(float* gradient, uint8* compressed)"
    function = compile_text(f"{signature} {{\n{body}\n}}", complete=False).encode
    assert function is not None
    return loops_and_vectors(function)


def test_each_part_of_thc_is_one_pass() -> None:
    program = compile_builtin("thc")
    assert program.encode is not None
    assert program.decode is not None
    assert loops_and_vectors(program.encode) == (1, {"exact", "sent"})
    assert loops_and_vectors(summed.statistics(program.encode)) == (1, set())
    assert loops_and_vectors(summed.with_agreed(program.encode)) == (1, {"exact", "sent"})
    assert loops_and_vectors(program.decode) == (1, {"rotated"})


ROTATED = "float* x = hadamard(gradient, 64);\n"
HALF = "float* x = hadamard(reduce_blocks(gradient, 0.0, max, 2), 64);\n"


@pytest.mark.parametrize(
    "body",
    [
        ROTATED + "compressed = concat(map(range(gradient.size), [&](int i) -> float { return x[i ^ 1]; }));",
        ROTATED + "compressed = concat(reduce_blocks(x, 0.0, max, 64), x);",
        ROTATED + "float most = reduce(x, 0.0, max);\ncompressed = concat(most);",
        ROTATED
        + "float* few = filter(x, [&](float a) -> bool { return a > 0; });\ncompressed = concat(few.size, few);",
        HALF + "compressed = concat(map(gradient, spread(x, 2), [&](float g, float a) -> float { return g + a; }));",
    ],
)
def test_a_vector_that_is_read_elsewhere_is_in_memory(body: str) -> None:
    assert encode(body)[1] == set()


def test_a_transform_with_other_blocks_has_a_pass_of_its_own() -> None:
    body = "float* y = hadamard(map(x, [&](float a) -> float { return 2 * a; }), 16);\ncompressed = concat(y);"
    assert encode(ROTATED + body) == (2, {"y"})


def test_a_vector_and_a_map_of_it_share_the_pass() -> None:
    body = "float* y = map(x, [&](float a) -> float { return 2 * a; });\ncompressed = concat(x, y);"
    assert encode(ROTATED + body) == (1, {"x"})
