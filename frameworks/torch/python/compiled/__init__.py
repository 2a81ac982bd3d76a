# SPDX-License-Identifier: Apache-2.0
"""Compressed collectives in graphs that torch.compile and torch.export trace.

    compressed = compress_group(group, codec="onebit")    # every rank; the state belongs into checkpoints
    report = compress_graph(graph_module)                 # replaces the graph's reductions over the group

or, with torch.compile, `torch._inductor.config.post_grad_custom_post_pass = GraphPass()`. A program of its own calls
all_reduce(), reduce_scatter() and all_gather(), and wait() where it needs the result.
"""

from hipress.torch.compiled.compressed_group import CompressedGroup
from hipress.torch.compiled.functions import all_gather, all_reduce, reduce_scatter, wait
from hipress.torch.compiled.graph_pass import GraphPass, GraphReport, KeptReduction, ReplacedReduction, compress_graph
from hipress.torch.compiled.groups import compress_group

__all__ = [
    "CompressedGroup",
    "GraphPass",
    "GraphReport",
    "KeptReduction",
    "ReplacedReduction",
    "all_gather",
    "all_reduce",
    "compress_graph",
    "compress_group",
    "reduce_scatter",
    "wait",
]
