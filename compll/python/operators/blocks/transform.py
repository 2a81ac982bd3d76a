# SPDX-License-Identifier: Apache-2.0
"""transform(vector, matrix): each block of the vector times a square matrix, which is a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check import expressions as check_expressions
from hipress.compll.check.arguments import bind
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope, VectorRef
from hipress.compll.check.tables import values_of
from hipress.compll.emit.scope import constant
from hipress.compll.frontend import syntax as s
from hipress.compll.operators.blocks.block_transform import BlockTransform, by_blocks, floats, on_cpu, on_cuda, planned
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import Computed, Vectors
from hipress.compll.reference.evaluate import Environment

#: Columns are filled up to a multiple of so many elements, as core/ops/cpu/blocks/block_transform.h takes them.
_TOGETHER = 16


@dataclass(frozen=True, kw_only=True)
class Transform(BlockTransform):
    """`matrix`: the name of the table, row after row."""

    matrix: str


@dataclass(frozen=True)
class TransformTo(plan.ByBlocks):
    op: Transform


def rule(node: s.Call, scope: Scope) -> Result:
    values, unit, span = floats(node, scope), scope.unit, node.arguments[1].span
    table = check_expressions.lower(node.arguments[1], scope)
    let = unit.tables.get(table.name) if isinstance(table, VectorRef) else None
    if let is None or values_of(let).dtype != np.float32:
        raise unit.error(span, "transform takes a table of floats", "write table float m[16] = {...};")
    count = len(values_of(let))
    size = math.isqrt(count)
    if size * size != count or size < 2:
        hint = "a matrix of n rows has n * n elements, row after row; n is 2 to 64"
        raise unit.error(span, f"'{let.name}' has {count} elements, which make no square matrix", hint)
    block = ir.Const(value=size, type=ir.INT, span=node.span)
    value = Transform(vector=values.name, block=block, matrix=let.name, span=node.span)
    return bind(scope, "transformed", ir.FLOAT, value)


def meaning(op: Transform, environment: Environment) -> NDArray[Any]:
    size = int(op.block.value)
    matrix = environment.vectors[op.matrix].reshape(size, size)

    def multiplied(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
        total: NDArray[np.float32] = blocks[:, :1] * matrix[:, 0]
        for column in range(1, size):
            total = total + blocks[:, column : column + 1] * matrix[:, column]
        return total

    return by_blocks(environment.vectors[op.vector], size, multiplied)


def _columns(vectors: Vectors, op: Transform, name: str) -> tuple[str, int]:
    """The declaration of the matrix, column after column, as matrix_<name>; elements from a column to the next."""
    definition = vectors.definitions[op.matrix]
    assert isinstance(definition, Computed)
    assert isinstance(definition.op, ir.Constants)
    size = int(op.block.value)
    stride = -(-size // _TOGETHER) * _TOGETHER
    padded = [0.0] * (stride - size)
    values = definition.op.values
    columns = [value for column in range(size) for value in (*values[column::size], *padded)]
    text = ", ".join(constant(value, ir.FLOAT) for value in columns)
    return f"alignas(64) static constexpr float matrix_{name}[] = {{{text}}};", stride


def _cpu(vectors: Vectors, op: Transform, name: str) -> tuple[str, str]:
    return _columns(vectors, op, name)[0], f"matrix_{name}"


def _cuda(vectors: Vectors, op: Transform, name: str) -> tuple[str, str, str]:
    declaration, stride = _columns(vectors, op, name)
    return declaration, "multiplyBlocks", f"{op.block.value}u, matrix_{name}, {stride}u"


PLANNING = planned(TransformTo)
CPU = on_cpu("MatrixBlocks", _cpu)
CUDA = on_cuda(_cuda)
