# SPDX-License-Identifier: Apache-2.0
"""A pass over graphs: compressed collectives in place of torch's. The nodes that wait stay where they are, so what the
compiler computes meanwhile stays there, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from hipress.errors import HipressError, InvalidArgument, Unsupported
from hipress.torch.compiled import operators as operators
from hipress.torch.compiled.checks import DTYPES, OPERATIONS
from hipress.torch.compiled.compressed_group import CompressedGroup
from hipress.torch.compiled.groups import compressed_group
from hipress.torch.compiled.names import names_of
from hipress.torch.compiled.reductions import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    Collective,
    Part,
    average_of,
    collectives_of,
    is_fixed,
    is_only_for,
    parts_of,
    value_of,
)
from hipress.torch.fsdp.collective_state import check_without_states
from hipress.torch.process_groups.dtypes import TensorShape


@dataclass(frozen=True)
class ReplacedReduction:
    """A collective that is compressed now."""

    node: str
    """The name of the new node in the graph."""
    operator: str
    group: str
    names: tuple[str, ...]
    """Of the gradients that travel in it."""
    exact: tuple[str, ...]
    """The gradients among them that travel without the codec: they are small, or have fewer than two dimensions."""


@dataclass(frozen=True)
class KeptReduction:
    """A collective that is torch's own still."""

    node: str
    group: str
    reason: str


@dataclass
class GraphReport:
    """What compress_graph() has done with each reduction."""

    replaced: list[ReplacedReduction] = field(default_factory=list)
    kept: list[KeptReduction] = field(default_factory=list)


def compress_graph(graph: fx.GraphModule | fx.Graph, *, strict: bool = True, gathers: bool = False) -> GraphReport:
    """Replaces the reductions of gradients in a graph, over groups with a codec, by compressed ones, in place.

    All ranks call it with the same graph. Every sum or average of float32, float16 or bfloat16 over such a group counts
    as a gradient, as in what torch.compile and SimpleFSDP trace. Values with fewer than two dimensions and small ones
    stay exact, as with `hipress.torch.ddp.compress()`; of a concatenation of flattened tensors this holds for each. A
    sum of values that were divided by the number of ranks becomes their average.

    Arguments:
        graph: with the shapes that torch notes in it while it traces (`node.meta["val"]`).
        strict: a reduction over a group with a codec that cannot be compressed raises; False: the report has it.
        gathers: all-gathers over groups with a codec are compressed, too: of parameters, whose values then change.

    Returns the report: each reduction is in one of its lists, with a reason if it is torch's own still.

    Raises Unsupported for a reduction that is no sum or average, that has a form without a compressed operator, or with
    a codec whose error feedback it cannot have; InvalidArgument for elements that codecs do not take, for sizes that
    depend on the input, and if no reduction of the graph is over a group with a codec.
    """
    of = graph.graph if isinstance(graph, fx.GraphModule) else graph
    report, groups = _compress(of, strict=strict, gathers=gathers)
    if report.kept and not groups:
        raise InvalidArgument(
            f"the graph's {len(report.kept)} reductions are over groups without a codec, such as "
            f"'{report.kept[0].group}': call hipress.torch.compiled.compress_group(group, codec=...) on all ranks "
            "before, or make the group with backend 'hipress'"
        )
    if isinstance(graph, fx.GraphModule):
        graph.recompile()
    return report


class GraphPass:
    """compress_graph() as a pass of TorchInductor, for each graph that torch.compile makes:

        torch._inductor.config.post_grad_custom_post_pass = GraphPass()

    There torch has put DistributedDataParallel's gradients into buckets (`optimize_ddp = "python_reducer"`). A graph
    without a group with a codec stays as it is. TorchInductor writes no graph with the pass into its cache.

    Arguments: as of compress_graph(). torch raises its errors as InductorError, with their text.
    """

    def __init__(self, *, strict: bool = True, gathers: bool = False) -> None:
        self._strict, self._gathers = strict, gathers
        #: Of the graphs with reductions so far, in the order in which they were compiled.
        self.reports: list[GraphReport] = []

    def __call__(self, graph: fx.Graph) -> None:
        """The pass."""
        report, _ = _compress(graph, strict=self._strict, gathers=self._gathers, may_mutate=True)
        if report.replaced or report.kept:
            self.reports.append(report)


@dataclass
class _Chosen:
    """A collective that becomes compressed."""

    collective: Collective
    group: CompressedGroup
    source: fx.Node
    op: str
    parts: tuple[Part, ...]
    shapes: tuple[TensorShape, ...]
    #: Whether each part travels without the codec.
    exact: tuple[bool, ...]


def _compress(
    graph: fx.Graph, *, strict: bool, gathers: bool, may_mutate: bool = False
) -> tuple[GraphReport, set[str]]:
    """The report, and the groups with a codec. `may_mutate`: the graph may have operators that change their inputs."""
    report, groups, chosen = GraphReport(), set[str](), []
    for collective in collectives_of(graph, gathers=gathers):
        group = compressed_group(collective.group) if collective.group else None
        if group is None:
            report.kept.append(_kept(collective, "its group has no codec"))
            continue
        groups.add(collective.group)
        try:
            found = _chosen(collective, group)
        except HipressError as error:
            if strict:
                raise
            report.kept.append(_kept(collective, str(error)))
            continue
        if all(found.exact) and not (group.keeps_states and collective.kind == ALL_REDUCE and found.parts[0].shape):
            report.kept.append(_kept(collective, f"it travels exactly: {_why_exact(found)}"))
        else:
            chosen.append(found)
    names = names_of(graph, [(each.collective, each.parts) for each in chosen])
    for each, own in zip(chosen, names, strict=True):
        report.replaced.append(_replace(graph, each, own, may_mutate=may_mutate))
    return report, groups


def _kept(collective: Collective, reason: str) -> KeptReduction:
    return KeptReduction(collective.node.name, collective.group, reason)


def _chosen(collective: Collective, group: CompressedGroup) -> _Chosen:
    """Raises Unsupported, InvalidArgument if the collective cannot be compressed."""
    what = f"'{collective.node.name}' in the graph"
    if collective.op and collective.op not in OPERATIONS:
        raise Unsupported(
            f"{what} combines values by '{collective.op}', and codecs are for sums and averages: give strict=False, "
            "and it stays as it is, or let it use a group without a codec"
        )
    if collective.kind not in (ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER):
        raise Unsupported(
            f"{what} is torch's '{collective.kind}', and HiPress has {ALL_REDUCE}, {REDUCE_SCATTER} and {ALL_GATHER}: "
            "call compress_graph() before the pass that makes such operators, or give strict=False, and it stays as it "
            "is"
        )
    value = collective.value
    if value is None:
        raise InvalidArgument(
            f"the graph does not show the shape of what {what} gets: trace it with fake tensors, as torch.compile, "
            'torch.export and make_fx(..., tracing_mode="fake") do'
        )
    if value.dtype not in DTYPES:
        raise InvalidArgument(
            f"{what} gets elements of type {value.dtype}, and codecs take float32, float16 and bfloat16: give "
            "strict=False, and it stays as it is, or let it use a group without a codec"
        )
    if not is_fixed(value):
        raise InvalidArgument(
            f"{what} has a size that depends on the input, and error feedback keeps a residual of one size: compile "
            "with dynamic=False, or give strict=False, and it stays as it is"
        )
    source = average_of(collective, group.world)
    before = value_of(source)
    if before is None or before.dtype != value.dtype:
        source = collective.given
    op = "avg" if source is not collective.given else collective.op
    parts = parts_of(source, value) if collective.kind == ALL_REDUCE else (Part(tuple(map(int, value.shape))),)
    pieces = group.world if collective.kind == REDUCE_SCATTER else 1
    shapes = tuple(TensorShape(part.count // pieces, value.dtype, len(part.shape)) for part in parts)
    exact = tuple(group.codec_of(shape) is None for shape in shapes)
    if collective.kind != ALL_REDUCE and not all(exact):
        check_without_states(group.options)
    return _Chosen(collective, group, source, op, parts, shapes, exact)


def _why_exact(found: _Chosen) -> str:
    if found.shapes[0].dimensions < 2 and not found.group.options.compress_vectors:
        return "it has fewer than two dimensions (compress_vectors)"
    return "it is small (min_compress_bytes), or the codec is 'none'"


def _replace(graph: fx.Graph, chosen: _Chosen, names: Sequence[str], *, may_mutate: bool) -> ReplacedReduction:
    collective, old, scaling = chosen.collective, chosen.collective.node, chosen.collective.given
    world, group = chosen.group.world, collective.group
    ops = torch.ops.hipress
    with graph.inserting_before(old):
        if collective.kind == ALL_REDUCE:
            counts, dimensions = [s.count for s in chosen.shapes], [s.dimensions for s in chosen.shapes]
            given = (chosen.source, chosen.op, group, list(names), counts, dimensions)
            in_place = may_mutate and is_only_for(chosen.source, collective.given, old)
            new = graph.call_function((ops.all_reduce_ if in_place else ops.all_reduce).default, given)
        elif collective.kind == REDUCE_SCATTER:
            new = graph.call_function(ops.reduce_scatter.default, (chosen.source, chosen.op, world, group, names[0]))
        else:
            new = graph.call_function(ops.all_gather.default, (chosen.source, world, group, names[0]))
    if new.target is ops.all_reduce_.default:
        # What waits for the reduction waits for its input, in whose memory the average comes.
        old.replace_all_uses_with(chosen.source)
    else:
        new.meta = dict(old.meta)
        old.replace_all_uses_with(new)
    graph.erase_node(old)
    if scaling is not chosen.source and not scaling.users:
        graph.erase_node(scaling)
    exact = tuple(name for name, is_exact in zip(names, chosen.exact, strict=True) if is_exact)
    return ReplacedReduction(new.name, str(new.target), group, tuple(names), exact)
