# SPDX-License-Identifier: Apache-2.0
"""The sections of the page, in the order of the questions that a reader has. Each section explains its terms."""

from __future__ import annotations

from collections import defaultdict

from hipress.secopa.plan.choice import RAW
from hipress.secopa.profile.quantities import seconds, share, size
from hipress.secopa.report.bar_figures import Comparison, Part, compared, stacked
from hipress.secopa.report.markup import Markup, element, joined, table
from hipress.secopa.report.run import Run
from hipress.secopa.report.timeline_figure import MEANING, MOST_RANKS, timeline

#: The largest number of gradients in the figure; the table has all.
_MOST_COMPARED = 20


def summary(run: Run) -> Markup:
    """The result in a few sentences."""
    traffic = run.traffic
    count = len(run.trace.ranks)
    said = [f"{count} processes ({'they are ' if count > 1 else ''}called ranks) trained one model together. "]
    said.append(
        "From the start of backward until all ranks had all averages, a step took "
        f"{seconds(run.step_s)}, the median of {len(run.steps)} steps. "
    )
    if traffic.raw_bytes > 0:
        said.append(f"In a step each rank sent {size(traffic.sent_bytes)} to others")
        factor = traffic.raw_bytes / max(traffic.sent_bytes, 1.0)
        said.append(
            f"; without compression it would have sent {size(traffic.raw_bytes)}, {factor:.1f} times as much. "
            if factor > 1.05
            else "; almost none of these bytes were compressed. "
        )
    hidden = run.shares.network_s + run.shares.waiting_s
    said.append(
        f"The ranks computed gradients for {share(run.shares.gradients_s, run.shares.step_s)} of the step, and only "
        f"waited for messages or other ranks for {share(hidden, run.shares.step_s)} of it."
    )
    parts = [element("p", "".join(said), class_="lead")]
    if run.plan is not None and run.plan.predicted_step_s is not None:
        parts.append(element("p", _prediction(run, run.plan.predicted_step_s), id="prediction"))
    if run.trace.dropped:
        parts.append(
            element("p", f"{run.trace.dropped} events are missing, because the trace was full. Record fewer steps.")
        )
    return element("section", *parts, id="summary")


def _prediction(run: Run, predicted_s: float) -> str:
    uncompressed_s = run.plan.predicted_uncompressed_step_s if run.plan is not None else None
    others = "" if uncompressed_s is None else f"; and {seconds(uncompressed_s)} if nothing were compressed"
    if predicted_s < run.shares.gradients_s:
        # The prediction is shorter than backward.
        return (
            f"The plan had predicted {seconds(predicted_s)} for averaging alone{others}: the planner did not know the "
            "times at which backward releases the gradients."
        )
    off = predicted_s / run.step_s - 1
    return (
        f"The plan had predicted {seconds(predicted_s)}: {abs(off):.0%} too {'little' if off < 0 else 'much'}{others}."
    )


def where_time_goes(run: Run) -> Markup:
    shares = run.shares
    parts = [
        Part("computing gradients", shares.gradients_s, "gradients"),
        Part("encoding, merging, decoding", shares.compute_s, "compute"),
        Part("waiting for messages", shares.network_s, "network"),
        Part("waiting for ranks", shares.waiting_s, "waiting"),
    ]
    meaning = (
        "the backward pass of the model, until its last gradient is complete",
        "compression and the addition of the ranks' gradients, while the rank computed no gradients",
        "messages were in flight and the rank had nothing to compute: a faster network or fewer bytes would save this",
        "none of the above; mostly the rank waited for slower ranks",
    )
    rows = [
        (_keyed(part.kind, part.label), seconds(part.value), share(part.value, shares.step_s), said)
        for part, said in zip(parts, meaning, strict=True)
    ]
    return _section(
        "time",
        "Where a step's time goes",
        "Averages over all ranks. At every moment the first row that applies counts: messages that are in flight while "
        "the rank computes gradients cost no time.",
        stacked(parts, "shares"),
        table(("", "time", "share", "meaning"), rows, numbers=(1, 2)),
    )


def what_happened_when(run: Run) -> Markup:
    keys = joined(_keyed(work.value, said) for work, said in MEANING.items())
    more = len(run.trace.ranks) - MOST_RANKS
    note = f" {more} more ranks are not drawn." if more > 0 else ""
    return _section(
        "when",
        "One step, moment by moment",
        "A step of median length, from left to right. Overlap is good: messages travel while the rank still computes "
        "gradients. Point at a bar to see its gradient." + note,
        element("p", keys, class_="keys"),
        element("div", timeline(run.step), class_="scroll"),
    )


def bytes_saved(run: Run) -> Markup:
    by_codec: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for outcome in run.outcomes:
        if outcome.traffic is not None:
            found = by_codec[outcome.codec or "not in the trace"]
            for index, value in enumerate((1, outcome.traffic.raw_bytes, outcome.traffic.sent_bytes)):
                found[index] += value
    rows = [
        (
            codec if codec != RAW else "not compressed",
            f"{count:.0f}",
            size(raw),
            size(sent),
            f"{raw / max(sent, 1):.1f}",
        )
        for codec, (count, raw, sent) in sorted(by_codec.items(), key=lambda item: -item[1][1])
    ]
    whole = run.traffic
    rows.append(
        (
            "all",
            str(len(run.outcomes)),
            size(whole.raw_bytes),
            size(whole.sent_bytes),
            f"{whole.raw_bytes / max(whole.sent_bytes, 1):.1f}",
        )
    )
    return _section(
        "bytes",
        "Bytes sent and saved",
        f"Per rank and step, in {whole.messages:.0f} messages. A codec sends a gradient with fewer bytes; most add "
        "the error of a step to the gradient of the next step.",
        stacked([Part("sent", whole.sent_bytes, "measured"), Part("saved", whole.saved_bytes, "waiting")], "saved"),
        table(("codec", "gradients", "uncompressed", "sent", "ratio"), rows, numbers=(1, 2, 3, 4)),
    )


def predicted_and_measured(run: Run) -> Markup:
    both = [
        Comparison(
            one.label, one.predicted_s, one.measured_s, f"{seconds(one.predicted_s)} / {seconds(one.measured_s)}"
        )
        for one in run.outcomes
        if one.predicted_s is not None and one.measured_s is not None
    ]
    if not both:
        return _section("gradients", "Predicted and measured", "No plan predicted these gradients.")
    largest = sorted(both, key=lambda one: -max(one.predicted, one.measured))[:_MOST_COMPARED]
    which = "All gradients" if len(largest) == len(both) else f"The {len(largest)} slowest gradients"
    return _section(
        "gradients",
        "Predicted and measured",
        "The time from the moment at which the last rank has a gradient until all ranks have its average. "
        f"{which}; measured times are medians over {len(run.steps)} steps. A gradient whose messages wait for messages "
        "of others takes longer than on an idle network.",
        element("p", _keyed("predicted", "predicted by the plan"), _keyed("measured", "measured"), class_="keys"),
        compared(largest, "comparison"),
    )


def _keyed(kind: str, label: str) -> Markup:
    return joined([element("span", class_=f"key {kind}"), label])


def _section(name: str, title: str, lead: str, *parts: str) -> Markup:
    return element("section", element("h2", title), element("p", lead, class_="soft"), *parts, id=name)
