# SPDX-License-Identifier: Apache-2.0
"""The figure of a step: the spans of each rank over time."""

from __future__ import annotations

from collections.abc import Sequence

from hipress.secopa.profile.quantities import seconds, size
from hipress.secopa.report.markup import Markup, element, joined
from hipress.secopa.report.steps import Step
from hipress.secopa.report.trace import Span, Work

#: The rows of a rank, and the kinds of work in each row.
LANES: tuple[tuple[str, tuple[Work, ...]], ...] = (
    ("gradients", (Work.BACKWARD,)),
    ("codec", (Work.ENCODE, Work.MERGE, Work.DECODE)),
    ("sending", (Work.SEND,)),
    ("receiving", (Work.RECEIVE,)),
)
MEANING = {
    Work.BACKWARD: "computing gradients",
    Work.ENCODE: "encoding",
    Work.MERGE: "merging",
    Work.DECODE: "decoding",
    Work.SEND: "sending",
    Work.RECEIVE: "receiving",
}
_WIDTH, _LEFT, _LANE, _GAP, _AXIS = 1100.0, 130.0, 14.0, 12.0, 24.0
#: Space for half of the last label of the axis.
_RIGHT = 30.0
#: Width below which a bar joins its neighbour (units of the figure): narrow bars are invisible, and many load slowly.
_NARROWEST = 0.7
#: The largest number of ranks in the figure; further ranks look much alike.
MOST_RANKS = 4


def timeline(step: Step) -> Markup:
    """The figure of the lowest ranks."""
    ranks = sorted(step.by_rank)[:MOST_RANKS]
    scale = (_WIDTH - _LEFT - _RIGHT) / max(step.seconds, 1e-9)
    rows: list[str] = []
    top = _AXIS
    for rank in ranks:
        rows.append(element("text", f"rank {rank}", x=0, y=top + _LANE - 3, class_="rank"))
        until_s = step.computed_until_s(rank)
        for name, works in LANES:
            rows.append(element("text", name, x=_LEFT - 6, y=top + _LANE - 3, text_anchor="end"))
            rows.append(element("rect", x=_LEFT, y=top, width=_WIDTH - _LEFT - _RIGHT, height=_LANE - 2, class_="lane"))
            for work in works:
                spans = [_shown(span, until_s) for span in step.by_rank[rank] if span.work is work]
                rows.extend(_bars(spans, step.start_s, scale, top))
            top += _LANE
        top += _GAP
    axis = _axis(step.seconds, scale, top)
    return element(
        "svg",
        joined([axis, *rows]),
        viewBox=f"0 0 {_WIDTH:.0f} {top:.0f}",
        role="img",
        id="timeline",
        class_="timeline",
    )


def _shown(span: Span, computed_until_s: float) -> Span:
    if span.work is not Work.BACKWARD:
        return span
    return Span(span.rank, span.work, span.start_s, max(span.start_s, min(span.end_s, computed_until_s)))


def _bars(spans: Sequence[Span], origin_s: float, scale: float, top: float) -> list[Markup]:
    bars: list[Markup] = []
    waiting: list[Span] = []  # narrow bars that touch
    for span in sorted(spans, key=lambda one: one.start_s):
        if waiting and (span.start_s - waiting[-1].end_s) * scale > _NARROWEST:
            bars.append(_bar(waiting, origin_s, scale, top))
            waiting = []
        if span.seconds * scale > _NARROWEST:
            bars.append(_bar([span], origin_s, scale, top))
        else:
            waiting.append(span)
    if waiting:
        bars.append(_bar(waiting, origin_s, scale, top))
    return bars


def _bar(spans: Sequence[Span], origin_s: float, scale: float, top: float) -> Markup:
    start_s, end_s = spans[0].start_s, max(span.end_s for span in spans)
    first = spans[0]
    said = f"{MEANING[first.work]}, {seconds(end_s - start_s)}"
    if len(spans) > 1:
        said = f"{len(spans)} times {said}"
    elif first.tensor:
        said += f": {first.tensor}, partition {first.partition}, {size(first.bytes)}"
    width = max(_NARROWEST, (end_s - start_s) * scale)
    place = {"x": _LEFT + (start_s - origin_s) * scale, "y": top, "width": width, "height": _LANE - 2}
    return element("rect", element("title", said), class_=first.work.value, **place)


def _axis(whole_s: float, scale: float, bottom: float) -> Markup:
    """The axis, with about three to eight labels."""
    step = 10.0
    while step > whole_s / 3:
        step /= 2 if f"{step:e}"[0] in "14" else 2.5 if f"{step:e}"[0] == "5" else 2
    marks = []
    for index in range(int(whole_s / step) + 1):
        x = _LEFT + index * step * scale
        marks.append(element("line", x1=x, x2=x, y1=_AXIS - 6, y2=bottom - _GAP, class_="mark"))
        marks.append(element("text", seconds(index * step) if index else "0", x=x, y=_AXIS - 10, text_anchor="middle"))
    return joined(marks)
