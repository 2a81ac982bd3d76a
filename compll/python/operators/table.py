# SPDX-License-Identifier: Apache-2.0
"""The table of operators. docs/extending/operator.md adds a row to it, step by step."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.operators import (
    add,
    agree,
    concat,
    constants,
    fill,
    filter,
    gather,
    map,
    prefix,
    range,
    reduce,
    reduce_blocks,
    scatter,
    smallest_of_blocks,
    sort,
    spread,
    sum,
    take,
)
from hipress.compll.operators.blocks import hadamard, pack_blocks, transform, unpack_blocks
from hipress.compll.operators.row import Row, install
from hipress.compll.passes import plan

TABLE = (
    Row(
        "map(vector, ..., function)",
        map.rule,
        node=ir.Map,
        meaning=map.meaning,
        planning=map.PLANNING,
        arguments=(2, 9),
    ),
    Row(
        "reduce(vector, initial, function)",
        reduce.rule,
        node=ir.Reduce,
        meaning=reduce.meaning,
        planning=reduce.PLANNING,
        sink=plan.ReduceTo,
        lowering={"cpu": reduce.CPU, "cuda": reduce.CUDA},
    ),
    Row(
        "reduce_blocks(vector, initial, function, block)",
        reduce_blocks.rule,
        node=ir.ReduceBlocks,
        meaning=reduce_blocks.meaning,
        planning=reduce_blocks.PLANNING,
        sink=plan.BlocksTo,
        lowering={"cpu": reduce_blocks.CPU, "cuda": reduce_blocks.CUDA},
    ),
    Row("sum(vector)", sum.rule),  # a reduce
    Row(
        "filter(vector, condition)",
        filter.rule,
        node=ir.Filter,
        meaning=filter.meaning,
        planning=filter.PLANNING,
        sink=plan.FilterTo,
        lowering={"cpu": filter.CPU, "cuda": filter.CUDA},
    ),
    Row(
        "prefix_sum(vector)",
        prefix.rule,
        node=prefix.Prefix,
        meaning=prefix.meaning,
        planning=prefix.PLANNING,
        sink=prefix.PrefixTo,
        lowering={"cpu": prefix.CPU, "cuda": prefix.CUDA},
    ),
    Row("prefix_max(vector)", prefix.rule),  # the same node
    Row(
        "sort(vector, key)",
        sort.rule,
        node=ir.Sort,
        meaning=sort.meaning,
        planning=sort.PLANNING,
        sink=plan.KeysTo,
        lowering={"cpu": sort.CPU, "cuda": sort.CUDA},
    ),
    Row(
        "smallest_of_blocks(vector, key, count, block)",
        smallest_of_blocks.rule,
        node=smallest_of_blocks.SmallestOfBlocks,
        meaning=smallest_of_blocks.meaning,
        planning=smallest_of_blocks.PLANNING,
        sink=smallest_of_blocks.SelectTo,
        lowering={"cpu": smallest_of_blocks.CPU, "cuda": smallest_of_blocks.CUDA},
    ),
    Row(
        "transform(vector, matrix)",
        transform.rule,
        node=transform.Transform,
        meaning=transform.meaning,
        planning=transform.PLANNING,
        sink=transform.TransformTo,
        lowering={"cpu": transform.CPU, "cuda": transform.CUDA},
    ),
    Row(
        "hadamard(vector, block)",
        hadamard.rule,
        node=hadamard.Hadamard,
        meaning=hadamard.meaning,
        planning=hadamard.PLANNING,
        sink=hadamard.HadamardTo,
        lowering={"cpu": hadamard.CPU, "cuda": hadamard.CUDA},
    ),
    Row(
        "pack_blocks(codes, widths, block)",
        pack_blocks.rule,
        node=pack_blocks.PackBlocks,
        meaning=pack_blocks.meaning,
        planning=pack_blocks.PLANNING,
        sink=pack_blocks.PackTo,
        lowering={"cpu": pack_blocks.CPU, "cuda": pack_blocks.CUDA},
    ),
    Row(
        "unpack_blocks(words, widths, block, count)",
        unpack_blocks.rule,
        node=unpack_blocks.UnpackBlocks,
        meaning=unpack_blocks.meaning,
        planning=unpack_blocks.PLANNING,
        element=unpack_blocks.element,
    ),
    Row(
        "gather(vector, indices)",
        gather.rule,
        node=gather.Gather,
        meaning=gather.meaning,
        planning=gather.PLANNING,
        element=gather.element,
    ),
    Row(
        "scatter(base, indices, values)",
        scatter.rule,
        node=ir.Scatter,
        meaning=scatter.meaning,
        planning=scatter.PLANNING,
        sink=plan.ScatterTo,
        lowering={"cpu": scatter.CPU, "cuda": scatter.CUDA},
    ),
    Row(
        "take(vector, count)",
        take.rule,
        node=ir.Take,
        meaning=take.meaning,
        planning=take.PLANNING,
        element=take.element,
    ),
    Row(
        "range(count)",
        range.rule,
        node=range.Range,
        meaning=range.meaning,
        planning=range.PLANNING,
        element=range.element,
    ),
    Row(
        "fill(count, value)",
        fill.rule,
        node=ir.Fill,
        meaning=fill.meaning,
        planning=fill.PLANNING,
        element=fill.element,
    ),
    Row("constants", None, node=ir.Constants, meaning=constants.meaning, planning=constants.PLANNING),
    Row("spread(vector, block)", spread.rule),  # an argument of map
    Row("agree(reduce_blocks(...), max)", agree.rule, arguments=(2, 2)),  # the vector of its first argument
    Row("add(levels, most)", add.rule),  # the same
    Row("concat(value, ...)", concat.rule, arguments=(1, 99)),  # a statement
)

install(TABLE)
