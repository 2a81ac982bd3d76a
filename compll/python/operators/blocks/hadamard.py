# SPDX-License-Identifier: Apache-2.0
"""hadamard(vector, block): the Walsh-Hadamard transform of each block, over the square root of its size.

The transform is its own inverse, and keeps the length of a block. Its sums go over the halves of a block first, then
over the halves of each half, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, block_size
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.scope import constant
from hipress.compll.frontend import syntax as s
from hipress.compll.operators.blocks.block_transform import BlockTransform, by_blocks, floats, on_cpu, on_cuda, planned
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import Vectors
from hipress.compll.reference.evaluate import Environment

#: The most elements of a block: two of them fit into a processor's first cache, one into a GPU's shared memory.
_MOST = 4096


class Hadamard(BlockTransform):
    pass


@dataclass(frozen=True)
class HadamardTo(plan.ByBlocks):
    op: Hadamard


def rule(node: s.Call, scope: Scope) -> Result:
    values, block, span = floats(node, scope), block_size(node.arguments[1], scope), node.arguments[1].span
    hint = f"the number is known when the program is compiled: 2, 4, 8, … {_MOST}"
    if not isinstance(block, ir.Const):
        raise scope.unit.error(span, "a block of hadamard has a constant size", hint)
    size = int(block.value)
    if size not in [1 << bits for bits in range(1, _MOST.bit_length())]:
        raise scope.unit.error(span, f"a block of hadamard cannot have {size} elements", hint)
    return bind(scope, "rotated", ir.FLOAT, Hadamard(vector=values.name, block=block, span=node.span))


def meaning(op: Hadamard, environment: Environment) -> NDArray[Any]:
    size = int(op.block.value)

    def rotated(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
        half = size // 2
        while half:
            pairs = blocks.reshape(len(blocks), size // half // 2, 2, half)
            low, high = pairs[:, :, 0], pairs[:, :, 1]
            blocks = np.stack([low + high, low - high], axis=2).reshape(len(blocks), size)
            half //= 2
        return blocks * _scale(op)

    return by_blocks(environment.vectors[op.vector], size, rotated)


def _scale(op: Hadamard) -> np.float32:
    scale: np.float32 = np.float32(1 / math.sqrt(op.block.value))
    return scale


def _cpu(vectors: Vectors, op: Hadamard, name: str) -> tuple[str, str]:
    return "", constant(float(_scale(op)), ir.FLOAT)


def _cuda(vectors: Vectors, op: Hadamard, name: str) -> tuple[str, str, str]:
    return "", "hadamardBlocks", f"{op.block.value}u, {constant(float(_scale(op)), ir.FLOAT)}"


PLANNING = planned(HadamardTo)
CPU = on_cpu("HadamardBlocks", _cpu)
CUDA = on_cuda(_cuda)
