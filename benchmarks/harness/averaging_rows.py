# SPDX-License-Identifier: Apache-2.0
"""Computes the rows of sync.py and adapters.py from the measurements of the ranks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cluster import PAYLOAD_SHARE, bits_per_second
from benchmarks.harness.report import Row, spread
from benchmarks.harness.samples import Measured

#: The system name of the row that repeats the fastest topology.
BEST = "best"
COLUMNS = (
    *("system", "codec", "topology"),
    *("model", "world", "nodes", "ranks_per_node", "rate", "release", "backward_s", "size_bytes"),
    *("repeats", "time_s", "time_min_s", "time_max_s", "speedup_ratio"),
    *("algbw_gbps", "busbw_gbps", "effective_gbitps"),
    *("bytes_sent", "link_bytes", "cpu_s"),
    *("link_limit_s", "compute_limit_s", "cpu_limit_s", "limit_ratio"),
    *("error", "trials", "unavailable"),
)


@dataclass(frozen=True)
class Setting:
    """The common columns of a run. `rate` None: no emulated cluster. `cores`: the cores that all ranks share."""

    model: str
    size: int
    nodes: int
    ranks_per_node: int
    rate: str | None
    release: str
    backward_s: float
    cores: int

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.nodes * self.ranks_per_node


def row(measured: Measured, setting: Setting, yardstick: float | None) -> Row:
    """The row of one system. `yardstick`: the time to which the speedup refers."""
    world = setting.world
    time_s = measured.time_s
    bandwidth = setting.size / 1e9 / time_s
    sent = [count for samples in measured.samples for count in samples.bytes_sent if count is not None]
    link_bytes = _link_bytes(measured)
    bits = None if setting.rate is None else bits_per_second(setting.rate)
    cpu_s = statistics.mean(seconds for samples in measured.samples for seconds in samples.cpu_seconds)
    link_limit_s = None if bits is None or link_bytes is None else 8 * link_bytes / (bits * PAYLOAD_SHARE)
    compute_limit_s = None if measured.codec_s is None else measured.codec_s / setting.cores
    limits = [limit for limit in (link_limit_s, compute_limit_s) if limit]
    return {
        "system": measured.system,
        "codec": measured.codec,
        "topology": measured.topology,
        **_place(setting),
        "repeats": len(measured.seconds),
        **spread("time", measured.seconds),
        "speedup_ratio": None if yardstick is None else yardstick / time_s,
        "algbw_gbps": bandwidth,
        "busbw_gbps": bandwidth * 2 * (world - 1) / world,
        "effective_gbitps": 8 * bandwidth,
        "bytes_sent": round(statistics.mean(sent)) if sent else None,
        "link_bytes": link_bytes,
        "cpu_s": cpu_s,
        "link_limit_s": link_limit_s,
        "compute_limit_s": compute_limit_s,
        "cpu_limit_s": cpu_s * world / setting.cores,
        "limit_ratio": time_s / max(limits) if limits else None,
        "error": measured.error,
        "trials": None,
        "unavailable": None,
    }


def unavailable_row(system: str, setting: Setting, reason: str) -> Row:
    """The row of a system that could not be measured, without figures."""
    return {**dict.fromkeys(COLUMNS), "system": system, **_place(setting), "unavailable": reason}


def with_best(rows: Sequence[Row], trials: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """The rows, followed for each codec by a copy of its fastest topology, with the times of the trials that selected
    the measured topologies."""
    result: list[Row] = []
    ours = [one for one in rows if one["topology"] is not None]
    for codec in dict.fromkeys(one["codec"] for one in ours):
        same = [one for one in ours if one["codec"] == codec]
        result += same
        fastest = min(range(len(same)), key=lambda index: _time(same[index]))
        result.append({**same[fastest], "system": BEST, "trials": dict(trials.get(str(codec), {})) or None})
    return result + [one for one in rows if one["topology"] is None]


def _time(one: Row) -> float:
    time_s = one["time_s"]
    assert isinstance(time_s, float)
    return time_s


def _link_bytes(measured: Measured) -> int | None:
    """Bytes of the busiest node in its busier direction, from which follows a lower bound of the time."""
    counts = [samples.link_bytes for samples in measured.samples]
    repetitions = [[count for count in ranks if count is not None] for ranks in zip(*counts, strict=True)]
    return round(statistics.median(max(ranks) for ranks in repetitions)) if all(repetitions) else None


def _place(setting: Setting) -> Row:
    return {
        "model": setting.model,
        "world": setting.world,
        "nodes": setting.nodes,
        "ranks_per_node": setting.ranks_per_node,
        "rate": setting.rate,
        "release": setting.release,
        "backward_s": setting.backward_s if setting.release == "backward" else None,
        "size_bytes": setting.size,
    }
