# SPDX-License-Identifier: Apache-2.0
"""Reads what HIPRESS_TRACE and start_timeline() write."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from hipress.errors import InvalidArgument
from hipress.secopa.document import read_text


class Work(Enum):
    """What a span is."""

    BACKWARD = "backward"
    ENCODE = "encode"
    MERGE = "merge"
    DECODE = "decode"
    SEND = "send"
    RECEIVE = "recv"

    @property
    def on_network(self) -> bool:
        return self in (Work.SEND, Work.RECEIVE)


@dataclass(frozen=True)
class Span:
    """Something that a rank did. Seconds from the first span of the trace."""

    rank: int
    work: Work
    start_s: float
    end_s: float
    bytes: int = 0
    """Of sends and receipts what travelled, of computing the values it was done to."""
    tensor: str = ""
    partition: int = 0
    step: int = -1
    """The tensor's own count."""

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Trace:
    """Of all ranks that wrote to the file."""

    spans: tuple[Span, ...]
    ranks: tuple[int, ...]
    dropped: int = 0
    """Spans that were not recorded because there were too many."""


def read_trace(path: str | Path) -> Trace:
    """Raises InvalidArgument if the file cannot be read or is no trace of HiPress."""
    try:
        events = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InvalidArgument(f"{path} is no trace: {error}; is the run over? A trace is written at its end") from None
    try:
        return _trace(events)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"{path} is no trace of HiPress: {error!r}") from None


def _trace(events: list[dict[str, Any]]) -> Trace:
    known = {work.value: work for work in Work}
    complete = [event for event in events if event["ph"] == "X" and event["name"] in known]
    if not complete:
        raise ValueError("it has no spans")
    origin = min(event["ts"] for event in complete)
    spans = []
    for event in complete:
        told = event["args"]
        start_s = (event["ts"] - origin) * 1e-6
        spans.append(
            Span(
                rank=int(event["pid"]),
                work=known[event["name"]],
                start_s=start_s,
                end_s=start_s + event["dur"] * 1e-6,
                bytes=int(told.get("bytes", 0)),
                tensor=str(told.get("tensor", "")),
                partition=int(told.get("partition", 0)),
                step=int(told.get("step", -1)),
            )
        )
    dropped = sum(event["args"].get("dropped_spans", 0) for event in events if event["name"] == "process_name")
    ranks = sorted({span.rank for span in spans})
    return Trace(tuple(sorted(spans, key=lambda span: span.start_s)), tuple(ranks), int(dropped))
