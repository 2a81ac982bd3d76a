# SPDX-License-Identifier: Apache-2.0
"""The sections of the page about the plan, and about the costs in its profile."""

from __future__ import annotations

from hipress.secopa.plan.choice import RAW
from hipress.secopa.profile.linked import LinkedCosts
from hipress.secopa.profile.profile import Profile
from hipress.secopa.profile.quantities import rate, seconds, size
from hipress.secopa.report.markup import Markup, element, table
from hipress.secopa.report.run import Outcome, Run

#: Bytes of a gradient in the table, and rows and columns of it as a matrix of float32.
_LARGE, _SIDE = 64 << 20, 1 << 12


def decisions(run: Run) -> Markup:
    """Every decision with its reason."""
    title = element("h2", "The plan, and why")
    if run.plan is None:
        said = "No plan was given for this run. The codecs are those of the trace."
        return element("section", title, element("p", said, class_="soft"), _without_plan(run), id="plan")
    plan = run.plan
    compressed = sum(decision.codec != RAW for decision in plan.decisions)
    said = plan.summary or f"{compressed} of {len(plan.decisions)} gradients are compressed"
    lead = f"For {plan.world} ranks, by {plan.made_by}: {said}."
    rows = [_row(one) for one in run.outcomes]
    head = ("gradient", "size", "codec", "partitions", "topology", "predicted", "uncompressed", "measured", "reason")
    return element(
        "section",
        title,
        element("p", lead, class_="soft"),
        table(head, rows, numbers=(1, 3, 5, 6, 7)),
        id="plan",
    )


def _row(one: Outcome) -> tuple[str, ...]:
    measured = "-" if one.measured_s is None else seconds(one.measured_s)
    if not one.decisions:
        return (one.label, "-", "-", "-", "-", "-", "-", measured, "not in the plan")
    first = one.decisions[0]
    return (
        one.label,
        size(sum(decision.elements for decision in one.decisions) * 4),
        "not compressed" if first.codec == RAW else first.codec,
        str(first.partitions),
        first.topology,
        "-" if first.predicted_s is None else seconds(first.predicted_s),
        "-" if first.predicted_uncompressed_s is None else seconds(first.predicted_uncompressed_s),
        measured,
        first.reason,
    )


def _without_plan(run: Run) -> Markup:
    rows = [
        (
            one.label,
            "not compressed" if one.codec == RAW else one.codec or "-",
            "-" if one.traffic is None else size(one.traffic.raw_bytes),
            "-" if one.traffic is None else size(one.traffic.sent_bytes),
            "-" if one.measured_s is None else seconds(one.measured_s),
        )
        for one in run.outcomes
    ]
    inside = table(("gradient", "codec", "bytes without compression", "sent", "time"), rows, numbers=(2, 3, 4))
    return element("details", element("summary", f"All {len(rows)} gradients"), inside)


def costs(profile: Profile) -> Markup:
    """The costs of the profile."""
    link = profile.link
    rows = [
        ("machine", profile.machine.text),
        ("measured", profile.made),
        (
            "network",
            f"{rate(link.bandwidth_bytes_per_s)} in one direction, {rate(link.both_ways_bytes_per_s)} in each "
            f"direction if both are in use; latency {seconds(link.latency_s)}",
        ),
    ]
    if profile.shared_memory is not None:
        rows.append(("within a host", f"{rate(profile.shared_memory.bandwidth_bytes_per_s)}, through shared memory"))
    codecs = [
        (
            text,
            seconds(one.times(1).encode.seconds(_LARGE)),
            seconds(one.times(1).decode.seconds(_LARGE)),
            size(one.encoded.of(_LARGE)),
            "-" if one.relative_error is None else f"{one.relative_error:.2g}",
        )
        for text, one in profile.codecs.items()
    ] + [_linked_row(text, linked) for text, linked in profile.linked.items()]
    head = ("codec", "encoding", "decoding", "sent", "error of one encoding")
    return element(
        "section",
        element("h2", "Costs on these machines"),
        element("p", "From the profile. The codec's costs are for a gradient of 64 MiB and one thread.", class_="soft"),
        table(("", ""), rows),
        table(head, codecs, numbers=(1, 2, 3, 4)),
        id="costs",
    )


def _linked_row(text: str, linked: LinkedCosts) -> tuple[str, ...]:
    times = linked.times(1)
    both = linked.tensors(_LARGE // 4, 4, (_SIDE, _SIDE))
    return (
        text,
        seconds(times.first.seconds(_LARGE) + times.second.seconds(_LARGE)),
        seconds(times.result.seconds(_LARGE)),
        size(_LARGE if both is None else sum(one.bytes for one in both)),
        "-" if linked.relative_error is None else f"{linked.relative_error:.2g}",
    )
