# SPDX-License-Identifier: Apache-2.0
"""Checks that a plan belongs to a traced job: the same number of ranks, and gradients of the same names and sizes."""

from __future__ import annotations

from collections import defaultdict

from hipress.errors import InvalidArgument
from hipress.secopa.plan.plan import Plan
from hipress.secopa.profile.gradients import ELEMENT_BYTES
from hipress.secopa.profile.linked import LEVELS, RIGHT
from hipress.secopa.report.run import Run, planned_tensors
from hipress.secopa.report.traffic import partition_bytes


def check_fit(run: Run) -> None:
    """Raises InvalidArgument with the first difference between the job's plan and its trace."""
    if run.plan is None:
        return
    _check_ranks(run, run.plan)
    traced = dict.fromkeys(span.tensor for span in run.trace.spans if span.tensor)
    sizes: dict[str, int] = defaultdict(int)
    for (tensor, _), size in partition_bytes(run.step).items():
        sizes[tensor] += size
    for label, tensor, decisions in planned_tensors(run.plan, list(traced)):
        if any(f"{tensor}{suffix}" in traced for suffix in (LEVELS, RIGHT)):
            continue  # it travels as two linked tensors of other sizes
        if tensor not in traced:
            # A gradient may have only dropped spans.
            if run.trace.dropped:
                continue
            raise InvalidArgument(_another(f"the plan is for '{label}', which is not in the trace"))
        planned = sum(one.elements * ELEMENT_BYTES.get(one.dtype, 4) for one in decisions)
        seen = sizes.get(tensor, 0)
        # A trace without some ranks, or with dropped spans, may show only some partitions.
        whole = _is_whole(run) and not run.trace.dropped
        if seen > planned or (whole and 0 < seen < planned):
            raise InvalidArgument(_another(f"'{label}' has {planned} bytes in the plan, {seen} bytes in the trace"))


def _check_ranks(run: Run, plan: Plan) -> None:
    seen = max(max(run.trace.ranks), max(span.peer for span in run.trace.spans)) + 1
    if seen > plan.world or (_is_whole(run) and seen != plan.world):
        raise InvalidArgument(_another(f"the plan is for {plan.world} ranks, the trace is of {seen}"))


def _is_whole(run: Run) -> bool:
    """Whether the trace has all ranks: no span has a peer that is not in the trace."""
    return {span.peer for span in run.trace.spans} <= {-1, *run.trace.ranks}


def _another(difference: str) -> str:
    return f"--plan is not the plan of this run: {difference}"
