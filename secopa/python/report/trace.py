# SPDX-License-Identifier: Apache-2.0
"""Reads the traces that HIPRESS_TRACE and start_timeline() write."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from hipress.errors import InvalidArgument
from hipress.secopa.profile.document import MalformedFile, clipped
from hipress.secopa.report.events import read_events

#: The largest number of spans of a page; ten steps of a large model on many ranks have fewer.
MOST_SPANS = 2_000_000


class Work(Enum):
    """The kinds of spans."""

    BACKWARD = "backward"
    ENCODE = "encode"
    MERGE = "merge"
    DECODE = "decode"
    SEND = "send"
    RECEIVE = "recv"

    @property
    def on_network(self) -> bool:
        return self in (Work.SEND, Work.RECEIVE)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work of a rank. Times are seconds from the first span of the trace."""

    rank: int
    work: Work
    start_s: float
    end_s: float
    bytes: int = 0
    """Bytes of the message; for computing, bytes of the uncompressed values."""
    tensor: str = ""
    partition: int = 0
    step: int = -1
    """The tensor's own count of steps."""
    peer: int = -1
    """The receiver or the sender of a message; -1 for computing."""
    codec: str = ""
    """The codec's text; "none" for uncompressed values, "" if the trace does not tell."""

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Trace:
    """The spans of all ranks that wrote to the file."""

    spans: tuple[Span, ...]
    ranks: tuple[int, ...]
    dropped: int = 0
    """Number of spans that were not recorded because the trace was full."""


def read_trace(path: str | Path) -> Trace:
    """Reads a trace. Raises InvalidArgument if the file cannot be read, MalformedFile if it is no trace of HiPress."""
    try:
        return _trace(read_events(path))
    except MalformedFile:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise MalformedFile(f"{path} is no trace of HiPress: {clipped(repr(error))}") from None
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error}") from None


def _trace(events: Iterable[dict[str, Any]]) -> Trace:
    known = {work.value: work for work in Work}
    names: dict[str, str] = {}
    spans, dropped, origin = [], 0, None
    for event in events:
        if event["name"] == "process_name":
            dropped += int(event["args"].get("dropped_spans", 0))
        elif event["ph"] == "X" and event["name"] in known:
            origin = event["ts"] if origin is None else origin
            spans.append(_span(known[event["name"]], event, origin, names))
            if len(spans) > MOST_SPANS:
                raise ValueError(f"it has more than {MOST_SPANS} spans: trace fewer steps, some ten are enough")
    if not spans:
        raise ValueError("it has no spans")
    spans.sort(key=lambda span: span.start_s)
    first_s = spans[0].start_s
    if first_s:  # ranks write one after the other, so the first event may not be the earliest
        spans = [replace(span, start_s=span.start_s - first_s, end_s=span.end_s - first_s) for span in spans]
    return Trace(tuple(spans), tuple(sorted({span.rank for span in spans})), dropped)


def _span(work: Work, event: dict[str, Any], origin: float, names: dict[str, str]) -> Span:
    """One span, in seconds from `origin` (microseconds). `names` holds one string per tensor, to save memory."""
    told = event["args"]
    start_s, duration_s = (event["ts"] - origin) * 1e-6, event["dur"] * 1e-6
    if not (math.isfinite(start_s) and 0 <= duration_s < math.inf):
        raise ValueError("a span has no place in time")
    tensor, codec = str(told.get("tensor", "")), str(told.get("codec", ""))
    return Span(
        rank=int(event["pid"]),
        work=work,
        start_s=start_s,
        end_s=start_s + duration_s,
        bytes=int(told.get("bytes", 0)),
        tensor=names.setdefault(tensor, tensor),
        partition=int(told.get("partition", 0)),
        step=int(told.get("step", -1)),
        peer=int(told.get("peer", -1)),
        codec=names.setdefault(codec, codec),
    )
