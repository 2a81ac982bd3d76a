# SPDX-License-Identifier: Apache-2.0
"""unpack_blocks(words, widths, block, count): the `count` codes that pack_blocks has packed into the words.

There must be as many words as the widths say. In decode, a message with another number of words is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, block_size, count, whole
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.cpu.tile import CpuTile
from hipress.compll.emit.scope import Scope as Text
from hipress.compll.frontend import syntax as s
from hipress.compll.operators.blocks.pack_blocks import MOST_BITS, widths_of
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need, Needs, NeedsOf
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment, evaluate
from hipress.compll.reference.message import packed_bytes, unpack
from hipress.compll.reference.operators import refuse


@dataclass(frozen=True, kw_only=True)
class UnpackBlocks(ir.Operator):
    words: str
    widths: str
    block: ir.Expr
    count: ir.Expr

    def length(self) -> ir.Length:
        return ir.Exactly(self.count)


def rule(node: s.Call, scope: Scope) -> Result:
    words, block = whole(node.arguments[0], scope), block_size(node.arguments[2], scope)
    if words.type.element != ir.INT:
        raise scope.unit.error(node.arguments[0].span, f"words are int32, these are {words.type.element}")
    number = count(node.arguments[3], scope)
    widths = widths_of(node.arguments[1], scope.unit.key(number), block, scope)
    value = UnpackBlocks(words=words.name, widths=widths.name, block=block, count=number, span=node.span)
    return bind(scope, "unpacked", ir.UINT8, value)


def meaning(op: UnpackBlocks, environment: Environment) -> NDArray[Any]:
    number, block = (max(least, int(evaluate(e, environment))) for least, e in ((0, op.count), (1, op.block)))
    words = environment.vectors[op.words].astype("<i4")
    widths = np.clip(environment.vectors[op.widths], 0, MOST_BITS).tolist()
    sizes = [min(block, number - first) for first in range(0, number, block)]
    lengths = [(size * width + 31) // 32 for size, width in zip(sizes, widths, strict=True)]
    if sum(lengths) != len(words):
        refuse(f"unpack_blocks: {len(words)} words, the widths need {sum(lengths)}", environment)
    codes, at = np.zeros(number, np.uint8), 0
    for block_number, (size, width, length) in enumerate(zip(sizes, widths, lengths, strict=True)):
        if width:
            # Bits behind the last code do not count.
            bits = np.unpackbits(words[at : at + length].view(np.uint8), count=size * width, bitorder="little")
            data = np.packbits(bits, bitorder="little").tobytes()
            assert len(data) == packed_bytes(size, width)
            codes[block_number * block : block_number * block + size] = unpack(data, size, width)
        at += length
    return codes


def _starts(op: UnpackBlocks) -> str:
    """The name of the numbers of the blocks' first words."""
    return f"{op.words}.{op.widths}"


def _plan(planner: Planner, name: str, op: UnpackBlocks) -> None:
    planner.count(name, op)
    planner.stored(op.words)
    planner.stored(op.widths)
    of = planner.of()
    needs = frozenset((Need("stored", op.words), Need("stored", op.widths))) | of.count(op.words) | of.count(op.widths)
    step = plan.Starts(_starts(op), op.widths, op.count, op.block, op.words)
    planner.after(needs | of.expr(op.block) | of.expr(op.count), step, Need("starts", _starts(op)))


def _needs(of: NeedsOf, op: UnpackBlocks) -> Needs:
    return frozenset((Need("starts", _starts(op)),))


def element(scope: Text, op: UnpackBlocks) -> str:
    words, widths = f"f->v_{scope.names(op.words)}", f"f->v_{scope.names(op.widths)}"
    starts = f"f->g_{scope.names(_starts(op))}"
    if isinstance(scope, CpuTile) and scope.block_scope is not None and op.block == scope.loop.block:
        codes = f"u_{scope.names(_starts(op))}"
        scope.before[codes] = (
            f"alignas(64) BlockCode<level> {codes}[kTile];\n"
            f"unpackTileOfBlock<level>({words} + {starts}[block], tile - first, count, {widths}[block], {codes});"
        )
        return f"{codes}[i]"
    size = f"static_cast<size_t>(ops::atLeastOne({scope.expr(op.block)}))"
    return f"ops::codeOfBlocks({words}, {starts}, {widths}, {size}, static_cast<size_t>({scope.position()}))"


PLANNING = Planning(_plan, _needs)
